// Bits that flip in the table and flow memories of a model, where it was built to let them.
#pragma once
#include "harness_fault.h"

#ifdef MT_POKE
#include "Vnic___024root.h"

template <typename Word, size_t DEPTH>
void flip_bit(VlUnpacked<Word, DEPTH>& bank, uint32_t entry, uint32_t bit) {
    bank[entry % DEPTH][bit / 32] ^= 1u << bit % 32;
}
// A fault's value: flow memory in bit 0, bank in bit 1, bit of the entry in 9..2, entry above.
inline void poke(Vnic& nic, const Fault& fault) {
    auto& root = *nic.rootp;
    const uint32_t bit = fault.value >> 2 & 0xff, entry = fault.value >> 10;
    switch (fault.value & 3) {
    case 0: return flip_bit(root.MT_POKE(table, 0), entry, bit);
    case 1: return flip_bit(root.MT_POKE(flows, 0), entry, bit);
    case 2: return flip_bit(root.MT_POKE(table, 1), entry, bit);
    default: return flip_bit(root.MT_POKE(flows, 1), entry, bit);
    }
}
constexpr bool POKES = true;
#else
inline void poke(Vnic&, const Fault&) {}
constexpr bool POKES = false;
#endif
