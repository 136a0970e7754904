// Faults on purpose: what happens to the next flit of a link from some cycle on.
#pragma once
#include "harness_link.h"

enum FaultKind : uint32_t {
    FLIP_PAYLOAD = 0, FLIP_KIND = 1, FLIP_SEQUENCE = 2, FLIP_CHECK = 3, FLIP_EPOCH = 4,
    DROP = 5, DUPLICATE = 6, DELAY = 7, STICK = 8, SILENCE = 9, POKE = 10
};

struct Fault {
    uint64_t cycle;                    // from when on
    uint32_t kind, rank, port, value;  // value: bit, cycles, memory channel or place
};

// Changes a flit that goes onto a link, or where it goes; once for each fault.
inline void strike(Link& link, Flit& flit, const Fault& fault) {
    switch (fault.kind) {
    case FLIP_PAYLOAD: flit.payload[fault.value / 8 % FLIT_BYTES] ^= 1 << fault.value % 8; break;
    case FLIP_KIND: flit.kind ^= 1 << fault.value % 3; break;
    case FLIP_SEQUENCE: flit.sequence ^= 1 << fault.value % 3; break;
    case FLIP_CHECK: flit.check ^= 1u << fault.value % 32; break;
    case FLIP_EPOCH: flit.epoch ^= 1; break;
    case DROP: flit.fate = LOST; break;
    case DELAY:
        flit.fate = LATE;
        flit.due += fault.value;
        break;
    default: break;
    }
}
