// Bits that flip in the state of a model: in its memories, its queues and their registers.
#pragma once
#include "harness_end.h"
#include "Vnic___024root.h"
#if NUM_SWITCH_PORTS
#include "Vswitch___024root.h"
#endif

#include <type_traits>

template <size_t WORDS> void flip_bit(VlWide<WORDS>& entry, uint32_t bit) {
    entry[bit / 32] ^= 1u << bit % 32;
}
template <typename Entry> std::enable_if_t<std::is_integral<Entry>::value>
flip_bit(Entry& entry, uint32_t bit) {
    entry ^= Entry(1) << bit;
}
constexpr uint32_t EVERY_ENTRY = 0xfff;
// A fault's value, as `FlipState.words` of injection.py packs it: a bit in 9..0, another one in
// 19..10 unless it is the same, the entry above.
template <typename Entry> void flip(Entry& entry, uint32_t width, const Fault& fault) {
    const uint32_t bit = (fault.value & 0x3ff) % width, other = (fault.value >> 10 & 0x3ff) % width;
    flip_bit(entry, bit);
    if (other != bit) flip_bit(entry, other);
}
template <typename Entry, size_t DEPTH>
void flip(VlUnpacked<Entry, DEPTH>& memory, uint32_t width, const Fault& fault) {
    const uint32_t entry = fault.value >> 20;
    if (entry != EVERY_ENTRY) return flip(memory[entry % DEPTH], width, fault);
    for (size_t k = 0; k < DEPTH; ++k) flip(memory[k], width, fault);
}

#define POKE_STATE(number, width, state)                                                         \
    case number: return flip(root.state, width, fault);

#define COUNT_STATE(number, width, state) +1

#ifndef MT_STATES  // the library was built without pokes
#define MT_STATES(X)
#endif
#ifndef MT_SWITCH_STATES
#define MT_SWITCH_STATES(X)
#endif
constexpr uint32_t NUM_STATES = 0 MT_STATES(COUNT_STATE);
constexpr uint32_t NUM_SWITCH_STATES = 0 MT_SWITCH_STATES(COUNT_STATE);

inline void poke(Vnic& model, const Fault& fault) {
    [[maybe_unused]] auto& root = *model.rootp;
    switch (fault.port) { MT_STATES(POKE_STATE) }
}
#if NUM_SWITCH_PORTS
inline void poke(Vswitch& model, const Fault& fault) {
    [[maybe_unused]] auto& root = *model.rootp;
    switch (fault.port) { MT_SWITCH_STATES(POKE_STATE) }
}
#endif

// What may happen to any node: it falls silent, or bits of its state flip.
template <typename Model> class Afflicted {
public:
    uint64_t next() const { return pokes_.next; }  // when state next flips
    bool silent(uint64_t now) const { return now >= silent_from_; }
    // Whether it has taken the fault, which is one of these.
    bool take(const Fault& fault) {
        if (fault.kind == SILENCE) silent_from_ = std::min(silent_from_, fault.cycle);
        else if (fault.kind == POKE) pokes_.add(fault);
        return fault.kind == SILENCE || fault.kind == POKE;
    }
    // Flips what is to flip by now; whether anything was.
    bool strike(uint64_t now, Model& model) {
        if (now < pokes_.next) return false;
        Fault fault;
        while (pokes_.take(now, fault, [](const Fault&) { return true; })) poke(model, fault);
        // Outputs follow in the same cycle, before they are sampled.
        model.eval();
        return true;
    }
    void heal() {
        pokes_.clear();
        silent_from_ = NEVER;
    }
    size_t num_faults_pending() const { return pokes_.size(); }

private:
    Pending pokes_;  // that are to come
    uint64_t silent_from_ = NEVER;
};
