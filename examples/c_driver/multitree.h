/* SPDX-License-Identifier: Apache-2.0 */
/* A driver of one MultiTree network interface: load a table, commit, start, wait.
 *
 * It knows the card through three functions, so it runs on mapped memory, in a kernel, on a
 * microcontroller and on an emulated card alike; it allocates nothing and keeps nothing global.
 * Every register's address comes from multitree_nic.h, which `multitree verilog` writes.
 */
#ifndef MULTITREE_H
#define MULTITREE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum multitree_status {
    MULTITREE_OK = 0,
    MULTITREE_NO_CARD = -1,   /* nothing behind the bus, or another register map */
    MULTITREE_TOO_LARGE = -2, /* the table does not fit the card */
    MULTITREE_FAULT = -3,     /* the card stopped */
    MULTITREE_TIMEOUT = -4    /* not over after `max_polls` looks, or a link is not up by then */
};

/* The way to a card's registers. `pause` is called between two looks at STATUS, to sleep until the
 * interrupt or for a while; NULL for none. */
struct multitree_bus {
    uint32_t (*read32)(void *ctx, uint32_t address);
    void (*write32)(void *ctx, uint32_t address, uint32_t value);
    void (*pause)(void *ctx);
    void *ctx;
};

/* Filled in by multitree_open; `error` is the reason in words after anything but MULTITREE_OK. */
struct multitree_card {
    struct multitree_bus bus;
    uint32_t rank;
    uint32_t max_polls;
    uint32_t num_ports, flit_bytes, table_depth, flow_depth;
    uint32_t ports_used; /* by the table that was loaded, bit by bit */
    char error[256];
};

/* One rank's table: words of its rows and flows, one entry after the other. */
struct multitree_table {
    uint32_t num_rows, num_flows;
    const uint32_t *rows;  /* num_rows times MULTITREE_NIC_TABLE_WORDS */
    const uint32_t *flows; /* num_flows times MULTITREE_NIC_FLOW_WORDS */
};

/* How and where a collective runs; the registers of the same names say more. */
struct multitree_settings {
    uint32_t mode;
    uint32_t window_base, window_flits;
    uint32_t watchdog_cycles, first_arrival_cycles;
};

int multitree_open(struct multitree_card *card, const struct multitree_bus *bus, uint32_t rank,
                   uint32_t max_polls);
int multitree_reset(struct multitree_card *card);
/* Resets one card between collectives; the others are idle, and SEQUENCE of theirs is `sequence`. */
int multitree_rejoin(struct multitree_card *card, uint32_t sequence);
int multitree_load(struct multitree_card *card, const struct multitree_table *table);
int multitree_commit(struct multitree_card *card, const struct multitree_settings *settings);
void multitree_start(struct multitree_card *card);
int multitree_wait(struct multitree_card *card);

#ifdef __cplusplus
}
#endif

#endif /* MULTITREE_H */
