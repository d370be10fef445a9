/* Symbols of the objects that are loaded, read from the objects themselves: for whoever stands in for dlsym. */
#ifndef GPUYARD_GATE_LOADED_SYMBOLS_H
#define GPUYARD_GATE_LOADED_SYMBOLS_H

/* A function of this name in an object loaded after ours, as RTLD_NEXT would find it, or else in any other; NULL if none. */
void *next_loaded(const char *name);

#endif
