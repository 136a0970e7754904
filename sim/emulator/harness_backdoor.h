// The backdoor: words of tables go into an interface's memories without the bus.
#pragma once
#include "Vnic___024root.h"
#include "members.h"
#include "ports.h"

#include <cstdint>

class Backdoor {
public:
    // Stores what a write on the bus would store; false where it is no word of a table, or would
    // be refused.
    static bool write(Vnic& nic, uint32_t address, uint32_t value) {
#ifdef MT_BANK
        auto& root = *nic.rootp;
        if (root.MT_LOCKED || address % 4) return false;
        if (address >= TABLE_BASE) {
            const uint32_t offset = address - TABLE_BASE;
            return store_row(root, offset / 8, offset / 4 % 2, value);
        }
        // The second half of a row.
        if (SHARED && address >= ROUTE_BASE) {
            const uint32_t offset = address - ROUTE_BASE;
            return store_row(root, offset / 8, 2 + offset / 4 % 2, value);
        }
        if (address < FLOW_BASE) return false;
        const uint32_t offset = address - FLOW_BASE, index = offset / 32, word = offset / 4 % 8;
        if (index >= NUM_FLOWS || word >= FLOW_WORDS) return false;
#define STORE(bank) store(root.MT_BANK ? root.bank##0[index] : root.bank##1[index], word, value);
        MT_FLOW_BANKS(STORE)
        return true;
#else
        (void)nic, (void)address, (void)value;
        return false;  // a model that is no interface
#endif
    }

private:
#ifdef MT_BANK
    template <typename Root>
    static bool store_row(Root& root, uint32_t index, uint32_t word, uint32_t value) {
        if (index >= TABLE_DEPTH) return false;
        MT_TABLE_BANKS(STORE)
        return true;
    }
    // A word of an entry of the shadow bank, with its check bits behind it.
    template <typename Entry> static void store(Entry& entry, uint32_t word, uint32_t value) {
        static constexpr uint32_t columns[] = {CHECK_COLUMNS};
        uint64_t stored = value;
        for (uint32_t k = 0; k < 32; ++k)
            if (value >> k & 1) stored ^= uint64_t(columns[k]) << 32;
        for (uint32_t k = 0, at = word * STORED_WIDTH; k < STORED_WIDTH; ++k, ++at) {
            const uint32_t bit = 1u << at % 32;
            entry[at / 32] = (entry[at / 32] & ~bit) | (stored >> k & 1 ? bit : 0);
        }
    }
#undef STORE
#endif
};
