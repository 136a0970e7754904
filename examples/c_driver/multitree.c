/* SPDX-License-Identifier: Apache-2.0 */
#include "multitree.h"

#include <stdio.h>

#include "multitree_nic.h"

#define ID 0x4D544E49u
#define VERSION 3u
#define NO_PORT 15u
#define UNKNOWN 0xFFFFu
#define RESETTING (MULTITREE_NIC_STATUS_BUSY_MASK | MULTITREE_NIC_STATUS_FAULT_MASK)

/* A field of a register's word, by their names in the register map. */
#define FIELD(word, name) (((word) & MULTITREE_NIC_##name##_MASK) >> MULTITREE_NIC_##name##_LSB)

static uint32_t read32(const struct multitree_card *card, uint32_t address)
{
    return card->bus.read32(card->bus.ctx, address);
}

static void write32(const struct multitree_card *card, uint32_t address, uint32_t value)
{
    card->bus.write32(card->bus.ctx, address, value);
}

/* Puts the reason of a failure into words. */
#define SAY(card, ...) snprintf((card)->error, sizeof(card)->error, __VA_ARGS__)

struct named {
    uint32_t number;
    const char *name, *meaning;
};

#define ENTRY(name, number, meaning) {number, #name, meaning},
static const struct named codes[] = {MULTITREE_NIC_FAULT_CODE_VALUES(ENTRY)};
static const struct named awaited_things[] = {MULTITREE_NIC_FAULT_AWAITED_VALUES(ENTRY)};

static const struct named *find(const struct named *list, size_t length, uint32_t number)
{
    for (size_t k = 0; k < length; ++k)
        if (list[k].number == number) return &list[k];
    return NULL;
}
#define FIND(list, number) find(list, sizeof(list) / sizeof(list)[0], number)

/* Appends "text number" for what is known. */
static int place(char *at, size_t room, const char *text, uint32_t number, uint32_t unknown)
{
    return number == unknown ? 0 : snprintf(at, room, "%s%u", text, (unsigned)number);
}

/* Puts the fault into words: rank, port, row, flow, the cause and what was awaited. */
static int fault(struct multitree_card *card)
{
    const uint32_t word = read32(card, MULTITREE_NIC_FAULT);
    const uint32_t where = read32(card, MULTITREE_NIC_FAULT_ROW);
    const uint32_t flow = FIELD(where, FAULT_ROW_FLOW);
    const struct named *code = FIND(codes, FIELD(word, FAULT_CODE));
    const struct named *awaited = FIND(awaited_things, FIELD(word, FAULT_AWAITED));
    char port[24] = "", row[24] = "", of[24] = "";
    int length;

    if (!code || !awaited) {
        SAY(card, "Rank %u: unknown fault 0x%08x", (unsigned)card->rank, (unsigned)word);
        return MULTITREE_FAULT;
    }
    place(port, sizeof port, ", port ", FIELD(word, FAULT_AT_PORT), NO_PORT);
    place(row, sizeof row, ", row ", FIELD(where, FAULT_ROW_ROW), UNKNOWN);
    place(of, sizeof of, ", flow ", flow, UNKNOWN);
    length = SAY(card, "Rank %u%s%s%s: %s (%s)", (unsigned)card->rank, port, row, of,
                 code->meaning, code->name);
    if (awaited->number == MULTITREE_NIC_FAULT_AWAITED_NOTHING) return MULTITREE_FAULT;
    length += snprintf(card->error + length, sizeof card->error - (size_t)length, "; awaited %s",
                       awaited->meaning);
    switch (awaited->number) {
    case MULTITREE_NIC_FAULT_AWAITED_DEPENDENCY:
    case MULTITREE_NIC_FAULT_AWAITED_SIBLING:
    case MULTITREE_NIC_FAULT_AWAITED_FLIT:
        snprintf(card->error + length, sizeof card->error - (size_t)length,
                 ": %s of flow %u on port %u", FIELD(word, FAULT_OP) ? "GATHER" : "REDUCE",
                 (unsigned)flow, (unsigned)FIELD(word, FAULT_PORT));
    }
    return MULTITREE_FAULT;
}

/* Looks at STATUS until the bits of `mask` are `wanted`; a fault is no end only of a reset. */
static int poll(struct multitree_card *card, uint32_t mask, uint32_t wanted, const char *what)
{
    for (uint32_t k = 0; k < card->max_polls; ++k) {
        const uint32_t status = read32(card, MULTITREE_NIC_STATUS);
        if ((status & mask) == wanted) return MULTITREE_OK;
        if (FIELD(status, STATUS_FAULT) && mask != RESETTING) return fault(card);
        if (card->bus.pause) card->bus.pause(card->bus.ctx);
    }
    SAY(card, "Rank %u: %s after %u reads of STATUS, %u messages still to come in",
        (unsigned)card->rank, what, (unsigned)card->max_polls,
        (unsigned)read32(card, MULTITREE_NIC_ARRIVALS_MISSING));
    return MULTITREE_TIMEOUT;
}

int multitree_open(struct multitree_card *card, const struct multitree_bus *bus, uint32_t rank,
                   uint32_t max_polls)
{
    uint32_t word;

    card->bus = *bus;
    card->rank = rank;
    card->max_polls = max_polls;
    card->ports_used = 0;
    card->error[0] = 0;
    word = read32(card, MULTITREE_NIC_ID);
    if (word != ID) {
        SAY(card, "Rank %u: ID must be 0x%08x, not 0x%08x", (unsigned)rank, ID, (unsigned)word);
        return MULTITREE_NO_CARD;
    }
    word = read32(card, MULTITREE_NIC_VERSION);
    if (word != VERSION) {
        SAY(card, "Rank %u: register map must be version %u, not %u", (unsigned)rank, VERSION,
            (unsigned)word);
        return MULTITREE_NO_CARD;
    }
    word = read32(card, MULTITREE_NIC_PARAMETERS);
    card->num_ports = FIELD(word, PARAMETERS_NUM_PORTS);
    card->flit_bytes = FIELD(word, PARAMETERS_FLIT_BYTES);
    card->table_depth = read32(card, MULTITREE_NIC_TABLE_DEPTH);
    card->flow_depth = read32(card, MULTITREE_NIC_FLOW_DEPTH);
    return MULTITREE_OK;
}

static int reset(struct multitree_card *card, uint32_t sequence)
{
    write32(card, MULTITREE_NIC_RESET_SEQUENCE, sequence);
    write32(card, MULTITREE_NIC_CONTROL, MULTITREE_NIC_CONTROL_RESET_MASK);
    return poll(card, RESETTING, 0, "reset is not over");
}

int multitree_reset(struct multitree_card *card)
{
    return reset(card, 0);
}

int multitree_rejoin(struct multitree_card *card, uint32_t sequence)
{
    const uint32_t delivered = MULTITREE_NIC_STATUS_DELIVERED_MASK;
    const int status = poll(card, delivered, delivered, "not delivered");

    return status ? status : reset(card, sequence);
}

/* CRC-32 of a word, least significant byte first, after the words before it. */
static uint32_t crc32(uint32_t crc, uint32_t word)
{
    crc = ~crc ^ word;
    for (int bit = 0; bit < 32; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
    return ~crc;
}

/* Writes `count` entries of `words` words each, the first at `base`; the CRC-32 goes on. */
static uint32_t write_entries(const struct multitree_card *card, const uint32_t *entries,
                              uint32_t count, uint32_t words, uint32_t base, uint32_t stride,
                              uint32_t crc)
{
    for (uint32_t entry = 0; entry < count; ++entry)
        for (uint32_t word = 0; word < words; ++word) {
            const uint32_t value = entries[words * entry + word];
            write32(card, base + stride * entry + 4 * word, value);
            crc = crc32(crc, value);
        }
    return crc;
}

/* Ports that a table's flows come and go by, bit by bit. */
static uint32_t ports_of(const struct multitree_card *card, const struct multitree_table *table)
{
    uint32_t ports = 0;

    for (uint32_t flow = 0; flow < table->num_flows; ++flow) {
        const uint32_t *words = &table->flows[MULTITREE_NIC_FLOW_WORDS * flow];
        for (int child = 0; child < 8; ++child) ports |= 1u << (words[3] >> 4 * child & NO_PORT);
        ports |= 1u << (words[4] & NO_PORT);
    }
    return ports & ((1u << card->num_ports) - 1);
}

/* Waits until the links that the table uses are up at both ends. */
static int await_links(struct multitree_card *card)
{
    uint32_t down = card->ports_used, port = 0;

    for (uint32_t k = 0; k < card->max_polls; ++k) {
        down = card->ports_used & ~read32(card, MULTITREE_NIC_LINKS);
        if (!down) return MULTITREE_OK;
        if (card->bus.pause) card->bus.pause(card->bus.ctx);
    }
    while (!(down >> port & 1)) ++port;
    SAY(card, "Rank %u: link of port %u is not up after %u reads of LINKS", (unsigned)card->rank,
        (unsigned)port, (unsigned)card->max_polls);
    return MULTITREE_TIMEOUT;
}

int multitree_load(struct multitree_card *card, const struct multitree_table *table)
{
    uint32_t crc;

    if (table->num_rows > card->table_depth || table->num_flows > card->flow_depth) {
        SAY(card, "Rank %u: rows and flows must be at most %u and %u, not %u and %u",
            (unsigned)card->rank, (unsigned)card->table_depth, (unsigned)card->flow_depth,
            (unsigned)table->num_rows, (unsigned)table->num_flows);
        return MULTITREE_TOO_LARGE;
    }
    crc = write_entries(card, table->rows, table->num_rows, MULTITREE_NIC_TABLE_WORDS,
                        MULTITREE_NIC_TABLE_BASE, MULTITREE_NIC_TABLE_STRIDE, 0);
    crc = write_entries(card, table->flows, table->num_flows, MULTITREE_NIC_FLOW_WORDS,
                        MULTITREE_NIC_FLOW_BASE, MULTITREE_NIC_FLOW_STRIDE, crc);
    write32(card, MULTITREE_NIC_RANK, card->rank);
    write32(card, MULTITREE_NIC_NUM_ROWS, table->num_rows);
    write32(card, MULTITREE_NIC_NUM_FLOWS, table->num_flows);
    write32(card, MULTITREE_NIC_TABLE_CRC, crc);
    card->ports_used = ports_of(card, table);
    return MULTITREE_OK;
}

int multitree_commit(struct multitree_card *card, const struct multitree_settings *settings)
{
    int status;

    write32(card, MULTITREE_NIC_MODE, settings->mode);
    write32(card, MULTITREE_NIC_WINDOW_BASE, settings->window_base);
    write32(card, MULTITREE_NIC_WINDOW_FLITS, settings->window_flits);
    write32(card, MULTITREE_NIC_WATCHDOG_CYCLES, settings->watchdog_cycles);
    write32(card, MULTITREE_NIC_FIRST_ARRIVAL_CYCLES, settings->first_arrival_cycles);
    write32(card, MULTITREE_NIC_STEP_CYCLES, 0);
    write32(card, MULTITREE_NIC_ITERATIONS, 0);
    write32(card, MULTITREE_NIC_CONTROL, MULTITREE_NIC_CONTROL_COMMIT_MASK);
    status = poll(card, MULTITREE_NIC_STATUS_BUSY_MASK | MULTITREE_NIC_STATUS_COMMITTED_MASK,
                  MULTITREE_NIC_STATUS_COMMITTED_MASK, "table is not accepted");
    return status ? status : await_links(card);
}

void multitree_start(struct multitree_card *card)
{
    write32(card, MULTITREE_NIC_CONTROL, MULTITREE_NIC_CONTROL_START_MASK);
}

int multitree_wait(struct multitree_card *card)
{
    const int status = poll(card, MULTITREE_NIC_STATUS_DONE_MASK, MULTITREE_NIC_STATUS_DONE_MASK,
                            "not done");
    if (status == MULTITREE_OK)
        write32(card, MULTITREE_NIC_CONTROL, MULTITREE_NIC_CONTROL_ACKNOWLEDGE_MASK);
    return status;
}
