// Fair choice among requests (hw/arbiter.py).
#pragma once
#include <cstdint>

namespace exact {

constexpr int NOBODY = -1;

class RoundRobin {
public:
    // The granted one of `requests`, a bit each, or NOBODY; the search begins behind the last one.
    int grant(uint32_t requests) const {
        if (!requests) return NOBODY;
        const uint32_t first = requests & behind_;
        return __builtin_ctz(first ? first : requests);
    }
    void advance(int granted) {
        if (granted != NOBODY) behind_ = ~1u << granted;
    }

private:
    uint32_t behind_ = 0;
};

}  // namespace exact
