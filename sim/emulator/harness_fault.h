// Faults on purpose: what happens to a node, its links, its memory or its state from some cycle on.
#pragma once
#include "harness_link.h"

enum FaultKind : uint32_t {
    FLIP_PAYLOAD = 0, FLIP_KIND = 1, FLIP_SEQUENCE = 2, FLIP_CHECK = 3, FLIP_EPOCH = 4,
    DROP = 5, DUPLICATE = 6, DELAY = 7, STICK = 8, SILENCE = 9, POKE = 10,
    LOSE_CREDIT = 11, DOUBLE_CREDIT = 12, MUTE = 13, ERROR = 14
};

struct Fault {
    uint64_t cycle;                    // from when on
    uint32_t kind, node, port, value;  // port: of a state its number; value: bits, cycles or channel
};

inline bool is_of_credit(const Fault& fault) {
    return fault.kind == LOSE_CREDIT || fault.kind == DOUBLE_CREDIT;
}

// Changes a flit that goes onto a link, or where it goes; once for each fault.
inline void strike(Flit& flit, const Fault& fault) {
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

// Faults that wait for their cycle and for something to strike; the first one that is due goes
// first, and the others wait for what comes later.
class Pending {
public:
    uint64_t next = NEVER;  // when the earliest is due

    void add(const Fault& fault) {
        faults_.push_back(fault);
        next = std::min(next, fault.cycle);
    }
    void clear() {
        faults_.clear();
        next = NEVER;
    }
    size_t size() const { return faults_.size(); }
    template <typename Suits> bool take(uint64_t now, Fault& taken, Suits suits) {
        bool found = false;
        uint64_t earliest = NEVER;
        for (size_t k = 0; k < faults_.size();) {
            if (!found && faults_[k].cycle <= now && suits(faults_[k])) {
                taken = faults_[k];
                faults_.erase(faults_.begin() + k);
                found = true;
            } else {
                earliest = std::min(earliest, faults_[k++].cycle);
            }
        }
        next = earliest;
        return found;
    }

private:
    std::vector<Fault> faults_;
};
