// Sleep: a model whose state repeats while nothing comes in or goes out is not evaluated.
//
// State that equals that of two cycles before, with equal inputs, repeats until an input changes.
// (Two, since questions to the tracker take two cycles each.) Counters are left out of the
// comparison, see `members_header` of members.py: they decide nothing but when the watchdog bites,
// and are advanced by arithmetic. So are memories that cannot have changed where nothing else has.
#pragma once
#include "Vnic__Syms.h"
#include "members.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#define COUNT_MEMBER(member) +1
#define ADDRESS_OF_MEMBER(member) &root.member,
#define PART_OF_MEMBER(member) \
    {size_t(reinterpret_cast<const uint8_t*>(&syms.member) - state), \
     size_t(reinterpret_cast<const uint8_t*>(&syms.member + 1) - state)},

class Sleep {
public:
    static constexpr uint64_t PERIOD = 2;  // cycles in which state repeats

    // After each cycle that was evaluated: whether anything came in or went out in it.
    void note(bool moved) {
        if (moved) wake();
        else ++still_;
    }
    void wake() {
        still_ = 0;
        try_at_ = FIRST_TRY;
        repeats_ = false;
    }
    // It is looked at again, less and less often.
    void doubt() {
        repeats_ = false;
        try_at_ = 2 * still_;
    }
    // Its state repeats, or nothing has moved for so long that it may.
    bool may_repeat() const { return repeats_ || still_ >= try_at_; }
    bool repeats() const { return repeats_; }
    // Evaluates a period and compares all state. Returns the cycles it took.
    template <typename Cycle> uint64_t look(Vnic& model, Cycle cycle) {
        uint64_t passed = 0;
        const bool comes_back = repeats_in(model, cycle, passed);
        if (!still_) return passed;
        doubt();
        repeats_ = comes_back && NUM_WATCHDOG;
        return passed;
    }
    // Cycles that may pass before a watchdog with this limit has to be evaluated.
    uint64_t most_cycles(const Vnic& model, uint64_t limit_cycles) const {
        const Counters counters = counters_of(model);
        uint64_t waited = 0;
        for (size_t k = 0; k < NUM_WATCHDOG; ++k)
            if (steps_[k]) waited = std::max<uint64_t>(waited, *counters[k]);
        return limit_cycles > waited + MARGIN ? limit_cycles - waited - MARGIN : 0;
    }
    // As if so many cycles, whole periods, had been evaluated.
    void skip(Vnic& model, uint64_t cycles) {
        const Counters counters = counters_of(model);
        for (size_t k = 0; k < NUM_COUNTERS; ++k)
            *counters[k] += steps_[k] * uint32_t(cycles / PERIOD);
    }

private:
    static constexpr uint64_t FIRST_TRY = 1, MARGIN = 8;
    static constexpr size_t NUM_COUNTERS = 0 MT_COUNTERS(COUNT_MEMBER);
    // The first of them; where there are none, the model is not known and never sleeps.
    static constexpr size_t NUM_WATCHDOG = 0 MT_WATCHDOG(COUNT_MEMBER);
    uint64_t still_ = 0, try_at_ = FIRST_TRY;
    bool repeats_ = false;
    uint32_t steps_[NUM_COUNTERS + 1] = {};  // of each counter in a period

    using Counters = std::array<uint32_t*, NUM_COUNTERS>;
    static Counters counters_of(const Vnic& model) {
        auto& root = *model.rootp;
        return {MT_COUNTERS(ADDRESS_OF_MEMBER)};
    }
    struct Part {
        size_t begin, end;  // bytes
    };

    // What of a model's state is compared; it lies alike in all models.
    static const std::vector<Part>& parts(const Vnic__Syms& syms) {
        static const std::vector<Part> found = find_parts(syms);
        return found;
    }
    static std::vector<Part> find_parts(const Vnic__Syms& syms) {
        const auto* state = reinterpret_cast<const uint8_t*>(&syms);
        std::vector<Part> settled = {MT_SETTLED(PART_OF_MEMBER)}, compared;
        std::sort(settled.begin(), settled.end(),
                  [](const Part& one, const Part& other) { return one.begin < other.begin; });
        size_t begin = 0;
        for (const Part& part : settled) {
            compared.push_back({begin, part.begin});
            begin = part.end;
        }
        compared.push_back({begin, sizeof syms});
        return compared;
    }
    // Whether state is the same a period later, but for the counters.
    template <typename Cycle> bool repeats_in(Vnic& model, Cycle cycle, uint64_t& passed) {
        // It holds the top module as well.
        const Vnic__Syms& syms = *model.rootp->vlSymsp;
        const auto* state = reinterpret_cast<const uint8_t*>(&syms);
        const std::vector<Part>& compared = parts(syms);
        // Its content is of use for a period only, in which a thread runs one model.
        thread_local std::vector<uint8_t> kept(sizeof syms);
        for (const Part& part : compared)
            std::memcpy(kept.data() + part.begin, state + part.begin, part.end - part.begin);
        for (uint64_t k = 0; k < PERIOD; ++k) cycle(passed++);
        if (!still_) return false;
        const Counters counters = counters_of(model);
        for (size_t k = 0; k < NUM_COUNTERS; ++k) {
            uint8_t* const old =
                kept.data() + (reinterpret_cast<const uint8_t*>(counters[k]) - state);
            uint32_t before;
            std::memcpy(&before, old, sizeof before);
            steps_[k] = *counters[k] - before;
            if (steps_[k] > PERIOD) return false;
            std::memcpy(old, counters[k], sizeof before);
        }
        return std::all_of(compared.begin(), compared.end(), [&](const Part& part) {
            return !std::memcmp(kept.data() + part.begin, state + part.begin, part.end - part.begin);
        });
    }
};
