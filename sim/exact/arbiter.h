// Fair choice among requests (hw/arbiter.py).
#pragma once
#include <cstdint>

namespace exact {

constexpr int NO_PORT = -1;

class RoundRobin {
public:
    // The granted one of `requests`, a bit each, or NO_PORT; the search begins behind the last one.
    int grant(uint64_t requests) const {
        if (!requests) return NO_PORT;
        const uint64_t first = requests & behind_;
        return __builtin_ctzll(first ? first : requests);
    }
    void advance(int granted) {
        if (granted != NO_PORT) behind_ = ~uint64_t(1) << granted;
    }

private:
    uint64_t behind_ = 0;
};

// The choice of who offers, kept while what is offered is not taken (`stay`).
class Stay {
public:
    int choose(int choice) const { return waits_ ? kept_ : choice; }
    void tick(int chosen, bool offered, bool taken) {
        waits_ = offered && !taken;
        kept_ = chosen;
    }

private:
    bool waits_ = false;
    int kept_ = 0;
};

}  // namespace exact
