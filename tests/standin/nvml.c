/* A stand-in for libnvidia-ml.so.1: the functions of NVML that onnxdyno calls, for two GPUs, the second cut into two
 * MIG instances. What it says follows a script, the file named by STANDIN_SCRIPT, read anew at every call:
 *
 *     <from_ns> <name> <number>
 *
 * A line holds from that time of CLOCK_MONOTONIC on (0 = always); of several with one name the last that holds counts.
 *     <function>       the nvmlReturn_t that this function answers, for example: 0 nvmlDeviceGetPowerUsage 3
 *     sm               SM clock, MHz                        events          clocks-event-reasons bits
 *     used             memory used, bytes                   utilisation     per cent
 *     power            mW; the energy counter is power x time since boot
 *     lost             1: every call on a GPU answers "GPU is lost"
 *     hang             1: every call on a GPU never returns
 *     tenant           a process id that computes on the first GPU; every line of it that holds is one process
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, LOST = 15 };
enum { TENANTS = 16 };

typedef struct { const char *uuid, *name; int is_mig, parent, gpu_slices, processors; uint64_t memory; } Device;
typedef Device *Handle;

#define GIB (1024ULL * 1024 * 1024)
static Device devices[] = {
    {"GPU-00000000-0000-4000-8000-00000000000a", "Stand-in A100", 0, -1, 0, 108, 40 * GIB},
    {"GPU-00000000-0000-4000-8000-00000000000b", "Stand-in H100", 0, -1, 0, 132, 80 * GIB},
    {"MIG-00000000-0000-4000-8000-00000000000c", "Stand-in H100 MIG 1g.10gb", 1, 1, 1, 16, 10 * GIB},
    {"MIG-00000000-0000-4000-8000-00000000000d", "Stand-in H100 MIG 2g.20gb", 1, 1, 2, 32, 20 * GIB},
};

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* The value of `name` now; all that hold go into `all` (may be NULL), their number is returned through `count`. */
static int64_t scripted(const char *name, int64_t otherwise, int64_t *all, int *count) {
    const char *path = getenv("STANDIN_SCRIPT");
    FILE *script = path ? fopen(path, "r") : NULL;
    int64_t found = otherwise, now = now_ns();
    int held = 0;
    if (script) {
        char line[256], key[128];
        long long from, value;
        while (fgets(line, sizeof line, script)) {
            if (sscanf(line, "%lld %127s %lli", &from, key, &value) != 3 || strcmp(key, name) || from > now) continue;
            found = value;
            if (all && held < TENANTS) all[held] = value;
            held++;
        }
        fclose(script);
    }
    if (count) *count = held < TENANTS ? held : TENANTS;
    return found;
}

static int64_t said(const char *name, int64_t otherwise) { return scripted(name, otherwise, NULL, NULL); }

/* What a call answers before anything else: the script's wish, a lost GPU, or a driver that hangs. */
static int answer(const char *function, Handle device) {
    if (device) {
        while (said("hang", 0)) usleep(10000);
        if (said("lost", 0)) return LOST;
    }
    return (int)said(function, OK);
}

#define TRY(device) do { int code = answer(__func__, device); if (code) return code; } while (0)
#define WHOLE_ONLY(device) do { TRY(device); if ((device)->is_mig) return NOT_SUPPORTED; } while (0)

static int text(char *to, unsigned size, const char *from) {
    if (strlen(from) + 1 > size) return TOO_SMALL;
    strcpy(to, from);
    return OK;
}

int nvmlInitWithFlags(unsigned flags) { (void)flags; TRY(NULL); return OK; }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) { return code == LOST ? "GPU is lost" : "an error of the stand-in"; }
int nvmlSystemGetDriverVersion(char *to, unsigned size) { TRY(NULL); return text(to, size, "999.10"); }
int nvmlSystemGetCudaDriverVersion_v2(int *to) { TRY(NULL); *to = 13000; return OK; }
int nvmlDeviceGetCount_v2(unsigned *to) { TRY(NULL); *to = 2; return OK; }

int nvmlDeviceGetHandleByIndex_v2(unsigned at, Handle *to) {
    TRY(NULL);
    if (at > 1) return INVALID;
    *to = &devices[at];
    return OK;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, Handle *to) {
    TRY(NULL);
    for (unsigned at = 0; at < sizeof devices / sizeof *devices; at++)
        if (!strcmp(devices[at].uuid, uuid)) { *to = &devices[at]; return OK; }
    return NOT_FOUND;
}

int nvmlDeviceGetUUID(Handle it, char *to, unsigned size) { TRY(NULL); return text(to, size, it->uuid); }
int nvmlDeviceGetName(Handle it, char *to, unsigned size) { TRY(it); return text(to, size, it->name); }
int nvmlDeviceGetVbiosVersion(Handle it, char *to, unsigned size) { TRY(it); return text(to, size, "92.00.00.00.01"); }

int nvmlDeviceGetCudaComputeCapability(Handle it, int *major, int *minor) {
    WHOLE_ONLY(it);
    *major = it == devices ? 8 : 9;
    *minor = 0;
    return OK;
}

typedef struct { uint64_t total, free, used; } Memory;
typedef struct { unsigned version; uint64_t total, reserved, free, used; } MemoryV2;
static uint64_t used(Handle it) { return it == devices ? (uint64_t)said("used", 4 << 20) : 4 << 20; }

int nvmlDeviceGetMemoryInfo(Handle it, Memory *to) {
    TRY(it);
    to->total = it->memory;
    to->used = used(it) + 600 * (1 << 20); /* as the first version of the call does: what the driver keeps is in it */
    to->free = to->total - to->used;
    return OK;
}

int nvmlDeviceGetMemoryInfo_v2(Handle it, MemoryV2 *to) {
    TRY(it);
    to->total = it->memory;
    to->reserved = 600 * (1 << 20);
    to->used = used(it);
    to->free = to->total - to->used - to->reserved;
    return OK;
}

int nvmlDeviceGetEccMode(Handle it, unsigned *now, unsigned *next) { WHOLE_ONLY(it); *now = *next = 1; return OK; }
int nvmlDeviceGetMigMode(Handle it, unsigned *now, unsigned *next) {
    WHOLE_ONLY(it);
    *now = *next = it == &devices[1];
    return OK;
}
int nvmlDeviceGetEnforcedPowerLimit(Handle it, unsigned *to) { WHOLE_ONLY(it); *to = 300000; return OK; }
int nvmlDeviceGetPowerManagementDefaultLimit(Handle it, unsigned *to) { WHOLE_ONLY(it); *to = 400000; return OK; }
int nvmlDeviceGetMaxClockInfo(Handle it, unsigned kind, unsigned *to) {
    WHOLE_ONLY(it);
    *to = kind == 2 ? 1215 : 1410;
    return OK;
}
int nvmlDeviceGetClockInfo(Handle it, unsigned kind, unsigned *to) {
    WHOLE_ONLY(it);
    *to = kind == 2 ? 1215 : (unsigned)said("sm", 1410);
    return OK;
}
int nvmlDeviceGetApplicationsClock(Handle it, unsigned kind, unsigned *to) {
    (void)kind; (void)to;
    TRY(it);
    return NOT_SUPPORTED; /* as on cards of today */
}
int nvmlDeviceGetMaxPcieLinkGeneration(Handle it, unsigned *to) { WHOLE_ONLY(it); *to = 4; return OK; }
int nvmlDeviceGetMaxPcieLinkWidth(Handle it, unsigned *to) { WHOLE_ONLY(it); *to = 16; return OK; }
int nvmlDeviceGetPersistenceMode(Handle it, unsigned *to) { WHOLE_ONLY(it); *to = 1; return OK; }
int nvmlDeviceGetComputeMode(Handle it, unsigned *to) { WHOLE_ONLY(it); *to = 0; return OK; }

typedef struct { char old[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } Pci;
int nvmlDeviceGetPciInfo_v3(Handle it, Pci *to) {
    WHOLE_ONLY(it);
    memset(to, 0, sizeof *to);
    strcpy(to->bus_id, it == devices ? "0000FFFF:3B:00.0" : "0000FFFF:5E:00.0");
    return OK;
}

int nvmlDeviceGetMaxMigDeviceCount(Handle it, unsigned *to) { WHOLE_ONLY(it); *to = it == &devices[1] ? 7 : 0; return OK; }
int nvmlDeviceGetMigDeviceHandleByIndex(Handle it, unsigned at, Handle *to) {
    WHOLE_ONLY(it);
    if (it != &devices[1] || (at != 0 && at != 3)) return NOT_FOUND; /* slots are not filled in order */
    *to = &devices[at == 0 ? 2 : 3];
    return OK;
}

typedef struct { unsigned processors, copy, decoder, encoder, jpeg, ofa, gpu_slices, compute_slices; uint64_t memory_mib; } Attributes;
int nvmlDeviceGetAttributes_v2(Handle it, Attributes *to) {
    TRY(it);
    if (!it->is_mig) return NOT_SUPPORTED;
    memset(to, 0, sizeof *to);
    to->processors = it->processors;
    to->gpu_slices = to->compute_slices = it->gpu_slices;
    to->memory_mib = it->memory >> 20;
    return OK;
}

typedef struct { unsigned gpu, memory; } Utilisation;
int nvmlDeviceGetUtilizationRates(Handle it, Utilisation *to) {
    WHOLE_ONLY(it);
    to->gpu = it == devices ? (unsigned)said("utilisation", 0) : 0;
    to->memory = 0;
    return OK;
}
int nvmlDeviceGetTemperature(Handle it, unsigned sensor, unsigned *to) { (void)sensor; WHOLE_ONLY(it); *to = 41; return OK; }
int nvmlDeviceGetPowerUsage(Handle it, unsigned *to) { WHOLE_ONLY(it); *to = (unsigned)said("power", 200000); return OK; }
int nvmlDeviceGetTotalEnergyConsumption(Handle it, uint64_t *to) {
    WHOLE_ONLY(it);
    *to = (uint64_t)((double)now_ns() * (double)said("power", 200000) / 1e9);
    return OK;
}
int nvmlDeviceGetCurrentClocksEventReasons(Handle it, uint64_t *to) {
    WHOLE_ONLY(it);
    *to = (uint64_t)said("events", 0);
    return OK;
}

typedef struct { unsigned pid; uint64_t used; unsigned gpu_instance, compute_instance; } Process;
int nvmlDeviceGetComputeRunningProcesses_v3(Handle it, unsigned *count, Process *to) {
    int64_t pids[TENANTS];
    int found = 0;
    TRY(it);
    if (it == devices) scripted("tenant", 0, pids, &found);
    if (found == 0) { *count = 0; return OK; }
    if (!to || *count < (unsigned)found) { *count = (unsigned)found; return TOO_SMALL; }
    for (int at = 0; at < found; at++) to[at] = (Process){(unsigned)pids[at], 512ULL << 20, ~0U, ~0U};
    *count = (unsigned)found;
    return OK;
}
