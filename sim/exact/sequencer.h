// Which contribution goes next into a sum, and which ones wait (nic/reduce/sequencer.py).
#pragma once
#include "shared_lane.h"

namespace exact {

// A message that asks for its place.
struct Claim {
    int32_t transfer;
    bool empty;
};

class Sequencer {
public:
    // What it says in a cycle.
    struct Word {
        int answered = NO_PORT;  // the port whose claim is answered
        Verdict verdict = Verdict::DIRECT;
        Turn turn;
        int32_t counted = NONE;    // a message that has done what it came for
        int32_t completed = NONE;  // the last contribution of a sum that is complete, or a result
        int32_t drain = NONE;      // a staged contribution to add now
    };

    Sequencer(Context& context, int num_ports) : context_(&context) {
        const auto& sizes = context.sizes;
        const auto depth = uint32_t(sizes.memory_queue_flits + 2 * sizes.num_vcs + LATE_MESSAGES);
        queues_.resize(size_t(num_ports), Fifo<Mark>(depth));
    }
    // `arrivals`: per port what is in, or nullptr; `claims`: a bit per port, `claim_of` says which.
    template <typename ClaimOf>
    Word tick(const Mark* const* arrivals, uint32_t claims, ClaimOf claim_of, bool drains_ready) {
        Word word;
        int taken = NO_PORT;
        switch (state_) {
        case PICK: taken = pick(claims, claim_of); break;
        case READ: state_ = HOLD; break;
        case HOLD: state_ = JUDGE; break;
        case JUDGE: word = judge(drains_ready); break;
        }
        for (size_t port = 0; port < queues_.size(); ++port) {
            const Mark* mark = arrivals[port];
            queues_[port].tick(mark, mark ? *mark : Mark(), int(port) == taken);
        }
        return word;
    }

private:
    enum State { PICK, READ, HOLD, JUDGE };
    Context* context_;
    std::vector<Fifo<Mark>> queues_;
    RoundRobin turns_, askers_;
    State state_ = PICK;
    Mark event_;
    int asker_ = NO_PORT;  // NO_PORT: the event is a message that is in
    bool empty_ = false;

    // A message that is in, else one that claims its place; returns the port whose queue it leaves.
    template <typename ClaimOf> int pick(uint32_t claims, ClaimOf claim_of) {
        uint32_t waiting = queues_[0].valid();
        // Those of port 0 first: a message of another port may add one to them.
        for (size_t port = 1; port < queues_.size() && !(waiting & 1); ++port)
            waiting |= uint32_t(queues_[port].valid()) << port;
        const int taken = turns_.grant(waiting);
        turns_.advance(taken);
        if (taken != NO_PORT) {
            event_ = queues_[size_t(taken)].front();
            asker_ = NO_PORT;
        } else {
            asker_ = askers_.grant(claims);
            askers_.advance(asker_);
            if (asker_ == NO_PORT) return NO_PORT;
            const Claim claim = claim_of(asker_);
            event_ = {claim.transfer, 1, true, false};
            empty_ = claim.empty;
        }
        state_ = READ;
        return taken;
    }
    Word judge(bool drains_ready) {
        const Transfer& transfer = context_->transfers[event_.transfer];
        const Sum sum = context_->sums[size_t(transfer.last)];
        Sum after = sum;
        Word word;
        const bool complete = asker_ == NO_PORT ? judge_arrival(transfer, sum, after, word)
                                               : judge_claim(transfer, sum, after, word);
        const bool over = asker_ == NO_PORT ? !event_.staged : empty_;
        if (word.drain != NONE && !drains_ready) {
            word.counted = word.completed = NONE;
            word.answered = NO_PORT;
            return word;
        }
        context_->sums[size_t(transfer.last)] = after;
        if (over) {
            word.counted = event_.transfer;
            if (transfer.replaces || complete) word.completed = transfer.last;
        }
        word.answered = asker_;
        state_ = PICK;
        return word;
    }
    // A message claims its place; whether it is the last contribution that was missing.
    bool judge_claim(const Transfer& transfer, const Sum& sum, Sum& after, Word& word) const {
        if (transfer.replaces) return false;
        const uint64_t place = uint64_t(1) << transfer.order;
        after.locked |= place;
        if (empty_) {
            ++after.next;
        } else if (sum.next != transfer.order) {
            const bool all_before = (sum.locked & (place - 1)) == place - 1;
            word.verdict = all_before ? Verdict::WAITS : Verdict::STAGED;
        }
        return sum.next == context_->transfers[transfer.last].order;
    }
    // A message is in memory, staged or not; whether it is the last contribution.
    bool judge_arrival(const Transfer& transfer, const Sum& sum, Sum& after, Word& word) const {
        if (transfer.replaces) return false;
        const uint64_t place = uint64_t(1) << transfer.order;
        if (event_.staged) {
            after.staged |= place;
            if (sum.next == transfer.order) word.drain = event_.transfer;
        } else {
            after.next = transfer.order + 1;
            word.turn = {event_.transfer};
            if (sum.staged & place << 1) word.drain = behind(event_.transfer);
        }
        return transfer.last == event_.transfer;
    }
    // The contribution behind another one in its sum.
    int32_t behind(int32_t transfer) const {
        int32_t found = context_->transfers[transfer].last;
        while (context_->transfers[found].before != transfer)
            found = context_->transfers[found].before;
        return found;
    }
};

}  // namespace exact
