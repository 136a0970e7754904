// Ends of links: a model's outputs enter a delay line, what is due becomes input; link faults.
#pragma once
#include "harness_fault.h"

// Where the signals of one end of two opposite links lie inside a model.
struct Pins {
    uint8_t *tx_valid, *tx_kind, *tx_vc, *tx_sequence, *tx_epoch, *tx_credit;
    uint8_t *rx_valid, *rx_kind, *rx_vc, *rx_sequence, *rx_epoch, *rx_credit;
    uint32_t *tx_check, *rx_check;
    void *tx_payload, *rx_payload;
};

#define PINS(model, p)                                                                           \
    Pins {                                                                                       \
        &model.link_##p##_tx_valid, &model.link_##p##_tx_kind, &model.link_##p##_tx_vc,          \
            &model.link_##p##_tx_sequence, &model.link_##p##_tx_epoch,                           \
            &model.link_##p##_tx_credit, &model.link_##p##_rx_valid, &model.link_##p##_rx_kind,  \
            &model.link_##p##_rx_vc, &model.link_##p##_rx_sequence, &model.link_##p##_rx_epoch,  \
            &model.link_##p##_rx_credit, &model.link_##p##_tx_check, &model.link_##p##_rx_check, \
            &model.link_##p##_tx_payload, &model.link_##p##_rx_payload                           \
    }

// One end of two opposite links.
struct End {
    Pins pins;
    Link *out = nullptr, *in = nullptr;
    bool sent_fault = false;  // it has sent a FAULT flit

    // Before a window of cycles: take over what came onto the links in the one before.
    void open_window(int parity) {
        // Each ring is touched by its consumer only: flits by the far end, credits by the near end.
        if (in) in->take_over_flits(!parity);
        if (out) out->credits.take_over(!parity);
    }
    // Takes a fault that is to strike from its cycle on.
    void expect(const Fault& fault) {
        if (!out) return;
        out->struck = out->struck || fault.kind == DROP || fault.kind == DELAY || fault.kind == MUTE;
        if (fault.kind == MUTE) {
            mute_from_ = fault.cycle;
            mute_until_ = fault.value ? fault.cycle + fault.value : NEVER;
        } else {
            faults_.add(fault);
        }
    }
    size_t num_faults_pending() const { return faults_.size(); }
    void heal() {
        faults_.clear();
        mute_from_ = mute_until_ = NEVER;
    }
    // Whether a flit or a credit came in or went out.
    bool moved() const {
        return (*pins.tx_valid | *pins.tx_credit | *pins.rx_valid | *pins.rx_credit) != 0;
    }
    // When the next flit or credit comes in.
    uint64_t next_event() const {
        uint64_t next = out ? out->credits.next_due : NEVER;
        if (in) {
            next = std::min(next, in->flits.next_due);
            for (const Flit& flit : in->late) next = std::min(next, flit.due);
        }
        return next;
    }
    bool sends_nowhere() const { return !out && *pins.tx_valid && *pins.tx_kind < DOWN; }
    // Whether a flit goes out; a silent end sends nothing.
    bool send(uint64_t now, int parity, bool silent) {
        if (!out) return false;
        // A doubled credit is due in the same cycle as the first, and comes a cycle later.
        *pins.tx_credit = out->credits.next_due <= now ? out->credits.pop().channels : 0;
        if (!*pins.tx_valid || silent) return false;
        Flit& flit = out->flits.put(out->due(now), parity);
        flit.fate = is_mute(now) ? LOST : SOUND;
        flit.kind = *pins.tx_kind;
        flit.vc = *pins.tx_vc;
        flit.sequence = *pins.tx_sequence;
        flit.epoch = *pins.tx_epoch;
        flit.check = *pins.tx_check;
        std::memcpy(flit.payload, pins.tx_payload, FLIT_BYTES);
        sent_fault = sent_fault || flit.kind == FAULT;
        // It is noted before a fault strikes it: what counts is what the model has sent.
        if (SHARED && flit.kind < DOWN)
            out->watch.note(flit.vc, flit.payload, flit.kind == HEAD || flit.kind == SINGLE,
                            flit.kind == TAIL || flit.kind == SINGLE);
        if (now >= faults_.next) strike_flit(now, parity, flit);
        return true;
    }
    void receive(uint64_t now, int parity, bool silent) {
        if (!in) return;
        const Flit* due = nullptr;
        // Sound flits are never due in one cycle, since each occupies the link for at least one.
        if (in->flits.next_due == now) due = &in->flits.pop();
        else if (!in->late.empty()) due = in->overdue(now);
        *pins.rx_valid = due != nullptr;
        if (due) {
            *pins.rx_kind = due->kind;
            *pins.rx_vc = due->vc;
            *pins.rx_sequence = due->sequence;
            *pins.rx_epoch = due->epoch;
            *pins.rx_check = due->check;
            std::memcpy(pins.rx_payload, due->payload, FLIT_BYTES);
        }
        if (*pins.rx_credit && !silent && !is_mute(now)) return_credits(now, parity);
    }

private:
    Pending faults_;  // of flits that go out and of credits that go back
    uint64_t mute_from_ = NEVER, mute_until_ = NEVER;

    bool is_mute(uint64_t now) const { return now >= mute_from_ && now < mute_until_; }
    void return_credits(uint64_t now, int parity) {
        uint8_t channels = *pins.rx_credit;
        if (SHARED) in->watch.note_taken(channels);
        const uint64_t due = now + in->credit_latency;
        const uint8_t one = channels & -channels;  // of one channel, the lowest
        Fault fault;
        if (now >= faults_.next && faults_.take(now, fault, is_of_credit)) {
            if (fault.kind == LOSE_CREDIT) channels ^= one;
            else in->credits.put(due, parity).channels = one;
        }
        if (channels) in->credits.put(due, parity).channels = channels;
    }
    void strike_flit(uint64_t now, int parity, Flit& flit) {
        Fault fault;
        if (!faults_.take(now, fault, [](const Fault& each) { return !is_of_credit(each); })) return;
        strike(flit, fault);
        if (fault.kind != DUPLICATE) return;
        // It is a copy, since `put` may move the outbox that `flit` lies in.
        const Flit copy = flit;
        const uint64_t again = out->due(now);
        Flit& second = out->flits.put(again, parity);
        second = copy;
        second.due = again;
    }
};
