/* SPDX-License-Identifier: Apache-2.0 */
/* One host with several cards: an all-reduce over all of them, in their memories. */
#include "multitree.h"

#include <stddef.h>

/* Resets, loads and commits every card, then runs one all-reduce. Returns the card that failed,
 * whose `error` says why, or NULL. The links need all cards reset before any is started. */
struct multitree_card *all_reduce(struct multitree_card *cards,
                                  const struct multitree_table *tables, uint32_t num_cards,
                                  const struct multitree_settings *settings)
{
    for (uint32_t k = 0; k < num_cards; ++k)
        if (multitree_reset(&cards[k])) return &cards[k];
    for (uint32_t k = 0; k < num_cards; ++k)
        if (multitree_load(&cards[k], &tables[k]) || multitree_commit(&cards[k], settings))
            return &cards[k];
    for (uint32_t k = 0; k < num_cards; ++k) multitree_start(&cards[k]);
    for (uint32_t k = 0; k < num_cards; ++k)
        if (multitree_wait(&cards[k])) return &cards[k];
    return NULL;
}
