/* Errors in words. */
#include "node.h"

const char *gpuyard_error_text(int error) {
    switch ((enum gpuyard_error)error) {
        case GPUYARD_OK: return "all is well";
        case GPUYARD_ERROR_NAME: return "a node's name is empty or too long";
        case GPUYARD_ERROR_NO_GPUS: return "a node without GPUs";
        case GPUYARD_ERROR_SPEED: return "a speed is a positive number";
        case GPUYARD_ERROR_POLICY: return "no such sharing policy";
        case GPUYARD_ERROR_NO_SUCH_GPU: return "no such GPU";
        case GPUYARD_ERROR_SHARE: return "a share is a part of a GPU, above 0 and at most 1";
        case GPUYARD_ERROR_DEMAND: return "a demand is a part of a GPU, above 0 and at most 1";
        case GPUYARD_ERROR_ABSENT: return "the file is not there";
        case GPUYARD_ERROR_OPEN: return "the file cannot be opened";
        case GPUYARD_ERROR_OWNER: return "the file belongs to another user";
        case GPUYARD_ERROR_ROOM: return "shared memory has no room for the file";
        case GPUYARD_ERROR_SYSTEM: return "the system has no memory or no lock left";
        case GPUYARD_ERROR_NO_NODE: return "no process is attached to such a node";
        case GPUYARD_ERROR_SEVERAL_NODES: return "several nodes are live, and none was named";
        case GPUYARD_ERROR_VERSION: return "the node is in use by another version of gpuyard";
        case GPUYARD_ERROR_OTHER_GPUS: return "the node is in use with other GPUs";
        case GPUYARD_ERROR_OTHER_SPEED: return "the node is in use with another speed";
        case GPUYARD_ERROR_OTHER_SHARING: return "the node is in use with another sharing policy";
        case GPUYARD_ERROR_SHARE_TAKEN: return "less of the GPU is left than was asked for";
        case GPUYARD_ERROR_MEMORY_TAKEN: return "the GPU's memory has no room for another process";
        case GPUYARD_ERROR_CLIENTS_TAKEN: return "as many processes use the GPU as can";
        case GPUYARD_ERROR_OUT_OF_MEMORY: return "the GPU has not so much memory left";
        case GPUYARD_ERROR_LEVEL: return "a level is 0 to 63, or -1 for none";
        case GPUYARD_ERROR_GPUS_TAKEN: return "the group uses as many GPUs as it can";
        case GPUYARD_ERROR_CONTROLLED: return "another process is the group's controller";
        case GPUYARD_ERROR_NO_JOB: return "a job ends that never began";
        case GPUYARD_ERROR_DISCONNECTED: return "this process has disconnected from the GPU";
        case GPUYARD_ERROR_CLOSED: return "the node is closed";
        case GPUYARD_ERROR_FORKED: return "a forked process cannot use what its parent opened";
        case GPUYARD_ERROR_INTERRUPTED: return "interrupted by a signal";
    }
    return "unknown error";
}
