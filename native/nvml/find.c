/* Which node a program means: the one it names, the one its GPUs name, or the only one there is. */
#define _GNU_SOURCE
#include "find.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "segment.h"

#define LONGEST_PATH 4096

bool is_locked(int file, off_t byte) {
    /* Open-file-description locks are the ones that belong to no process, and for those l_pid must be zero. */
    struct flock question = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    return fcntl(file, F_OFD_GETLK, &question) == 0 && question.l_type != F_UNLCK;
}

static const char *folder(void) {
    if (access(GPUYARD_FOLDER, W_OK) == 0) return GPUYARD_FOLDER;
    static const char *const names[] = {"TMPDIR", "TEMP", "TMP"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *place = getenv(names[i]);
        if (place != NULL && *place != '\0') return place;
    }
    return "/tmp";
}

/* Opens a node's file if somebody is attached to it; a stale one counts as absent. */
static int open_live(const char *path) {
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (file >= 0 && !is_locked(file, GPUYARD_ATTACHED)) {
        close(file);
        return -1;
    }
    return file;
}

static bool is_plain(char byte) {
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') ||
           (byte != '\0' && strchr("._+-", byte) != NULL);
}

static int open_named(const char *name) {
    char path[LONGEST_PATH];
    int used = snprintf(path, sizeof path, "%s/gpuyard-%u-", folder(), (unsigned int)getuid());
    size_t length = strlen(name);
    if (length == 0 || length > GPUYARD_MOST_NAME_BYTES || used < 0 || (size_t)used + length >= sizeof path) return -1;
    for (size_t i = 0; i <= length; i++) path[(size_t)used + i] = name[i] == '\0' || is_plain(name[i]) ? name[i] : '_';
    return open_live(path);
}

/* With several nodes alive and none named, any choice would be a guess: then there is none. */
static int open_only(void) {
    char prefix[64], path[LONGEST_PATH];
    snprintf(prefix, sizeof prefix, "gpuyard-%u-", (unsigned int)getuid());
    DIR *entries = opendir(folder());
    int found = -1, count = 0;
    for (struct dirent *entry; entries != NULL && (entry = readdir(entries)) != NULL;) {
        if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0) continue;
        int length = snprintf(path, sizeof path, "%s/%s", folder(), entry->d_name);
        int file = length > 0 && (size_t)length < sizeof path ? open_live(path) : -1;
        if (file < 0) continue;
        if (count++ == 0) found = file;
        else close(file);
    }
    if (entries != NULL) closedir(entries);
    if (count <= 1) return found;
    close(found);
    return -1;
}

int find_node(void) {
    static const char *const names[] = {"GPUYARD_NODE", "GPUYARD_GPUS"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *name = getenv(names[i]);
        if (name != NULL && *name != '\0') return open_named(name);
    }
    return open_only();
}
