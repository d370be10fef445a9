/* Which node a program means: the one it names, the one its GPUs name, or the only one there is. */
#define _GNU_SOURCE
#include "find.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *text_from(const char *const *variables, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const char *text = getenv(variables[i]);
        if (text != NULL && *text != '\0') return text;
    }
    return NULL;
}

int gpuyard_folder(char folder[GPUYARD_PATH_BYTES]) {
    static const char *const ours[] = {"GPUYARD_SHM"}, *const temporary[] = {"TMPDIR", "TEMP", "TMP"};
    const char *place = text_from(ours, 1);
    if (place == NULL && access("/dev/shm", W_OK) == 0) place = "/dev/shm";
    if (place == NULL) place = text_from(temporary, 3);
    int length = snprintf(folder, GPUYARD_PATH_BYTES, "%s", place == NULL ? "/tmp" : place);
    return length < GPUYARD_PATH_BYTES ? GPUYARD_OK : GPUYARD_ERROR_NAME;
}

static void write_prefix(char prefix[32]) { snprintf(prefix, 32, "gpuyard-%u-", (unsigned int)getuid()); }

static bool is_plain(char byte) {
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') ||
           strchr("._+-", byte) != NULL;
}

/* Bytes of the name other than ASCII letters, digits and `._+-` become `_`. */
int gpuyard_path(const char *name, char path[GPUYARD_PATH_BYTES]) {
    char folder[GPUYARD_PATH_BYTES], prefix[32], plain[GPUYARD_MOST_NAME_BYTES + 1] = "";
    size_t length = strlen(name);
    if (length == 0 || length > GPUYARD_MOST_NAME_BYTES) return GPUYARD_ERROR_NAME;
    for (size_t i = 0; i < length; i++) plain[i] = is_plain(name[i]) ? name[i] : '_';
    int error = gpuyard_folder(folder);
    write_prefix(prefix);
    if (error != GPUYARD_OK) return error;
    bool fits = snprintf(path, GPUYARD_PATH_BYTES, "%s/%s%s", folder, prefix, plain) < GPUYARD_PATH_BYTES;
    return fits ? GPUYARD_OK : GPUYARD_ERROR_NAME;
}

int gpuyard_live_nodes(char (*names)[GPUYARD_NAME_BYTES], unsigned int room) {
    char folder[GPUYARD_PATH_BYTES], prefix[32], path[2 * GPUYARD_PATH_BYTES];
    int count = 0, error = gpuyard_folder(folder);
    if (error != GPUYARD_OK) return error;
    write_prefix(prefix);
    DIR *entries = opendir(folder);
    for (struct dirent *entry; entries != NULL && (entry = readdir(entries)) != NULL;) {
        if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0) continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        struct gpuyard_description about;
        if (read_live(path, &about) != GPUYARD_OK) continue;
        if ((unsigned int)count < room) memcpy(names[count], about.name, sizeof about.name);
        count++;
    }
    if (entries != NULL) closedir(entries);
    return count;
}

/* With several nodes alive and none named, any choice would be a guess: then there is none. */
int find_path(const char *name, char path[GPUYARD_PATH_BYTES]) {
    static const char *const variables[] = {"GPUYARD_NODE", "GPUYARD_GPUS"};
    if (name == NULL) name = text_from(variables, 2);
    if (name != NULL) return gpuyard_path(name, path);
    char only[1][GPUYARD_NAME_BYTES];
    int count = gpuyard_live_nodes(only, 1);
    if (count < 0) return count;
    return count == 1 ? gpuyard_path(only[0], path)
           : count == 0 ? GPUYARD_ERROR_NO_NODE : GPUYARD_ERROR_SEVERAL_NODES;
}
