// A port's sender: issuer, framer and what is between them (nic/send/sender.py).
#pragma once
#include "tracker.h"
#include "output.h"

namespace exact {

// Takes jobs in order, waits for their dependency, issues their reads (nic/send/issuer.py).
class Issuer {
public:
    Issuer(const Context& context, int client)
        : context_(&context), client_(client), room_(uint32_t(context.sizes.memory_queue_flits)) {}
    bool takes() const { return state_ == TAKE; }
    int32_t transfer() const { return job_.transfer; }
    // What it asks the tracker for.
    int32_t question() const {
        if (state_ == TAKE) return NONE;
        return state_ == AWAIT || context_->sizes.cut_through ? need() : NONE;
    }
    // Whether the next flit may be read, by the answer of this very cycle too.
    bool gate(const Tracker& tracker) const {
        if (need() == NONE || known_ >= needed_) return true;
        return asked_ && tracker.answers(client_) && tracker.count(client_) >= needed_;
    }
    bool offers(bool gate) const { return state_ == AWAIT && gate; }
    // Whether a read is issued; with the descriptor or behind it.
    bool issues(bool gate, bool described) const {
        return gate && left_ && room_ && (state_ == READ || (state_ == AWAIT && described));
    }
    void tick(const Tracker& tracker, const Job* job, bool described, bool issued, bool returned) {
        const bool done = !left_ || (issued && left_ == 1);
        if (asked_ && tracker.answers(client_)) known_ = tracker.count(client_);
        asked_ = question() != NONE;
        room_ += uint32_t(returned) - uint32_t(issued);
        if (issued) {
            --left_;
            if (++place_ == context_->sizes.submessage_flits) {
                place_ = 0;
                needed_ += uint64_t(context_->sizes.cut_through);
            }
        }
        if (state_ == TAKE) {
            known_ = 0;
            if (job) take(*job);
        } else if (state_ == AWAIT ? described : done) {
            state_ = done ? TAKE : READ;
        }
    }

private:
    enum State { TAKE, AWAIT, READ };
    const Context* context_;
    int client_;
    State state_ = TAKE;
    Job job_ = {NONE, 0};
    uint32_t room_;
    int32_t left_ = 0, place_ = 0;
    uint64_t needed_ = 0, known_ = 0;
    bool asked_ = false;

    // None before the first job.
    int32_t need() const {
        return job_.transfer == NONE ? NONE : context_->transfers[job_.transfer].need;
    }
    void take(const Job& job) {
        job_ = job;
        left_ = context_->transfers[job.transfer].size;
        place_ = 0;
        const bool shared = context_->sizes.num_vcs > 1;
        const int32_t whole = shared || context_->sizes.cut_through ? 1 : context_->parts(left_);
        needed_ = context_->count(job.wave, uint64_t(whole));
        state_ = AWAIT;
    }
};

class Sender {
public:
    Output output;

    Sender(Context& context, int client)
        : output(context), client_(client), issuer_(context, client), jobs_(JOB_QUEUE_DEPTH),
          descriptors_(4), payload_(uint32_t(context.sizes.memory_queue_flits)),
          reads_(uint32_t(context.sizes.read_cycles) + 1) {}

    bool has_room() const { return jobs_.ready(); }
    int32_t question() const { return issuer_.question(); }
    bool idle() const {
        return jobs_.empty() && issuer_.takes() && descriptors_.empty() && output.idle();
    }
    // Whether its address is on the memory's read channel in this cycle.
    bool reading() const { return reading_; }
    // Whether it stays as it is until something comes in.
    bool asleep() const { return rest_.asleep(); }
    bool wakes(uint64_t now, const CommonState& common) const {
        return output.comes(now) ||
               (common.tracker.answers(client_) && issuer_.gate(common.tracker));
    }

    void tick(uint64_t now, bool running, const Job* put, const CommonState& common) {
        const bool gate = issuer_.gate(common.tracker);
        const bool takes = running && issuer_.takes() && jobs_.valid();
        const bool described = running && issuer_.offers(gate) && descriptors_.ready();
        const bool issued = running && issuer_.issues(gate, described);
        const Job job = jobs_.front();
        const int32_t transfer = issuer_.transfer();
        const bool credited = output.comes(now);
        const auto moves = output.tick(now, running, descriptors_.valid(), descriptors_.front(),
                                       payload_.valid());
        const bool read = reads_.take(now);
        if (issued) reads_.put(now);
        issuer_.tick(common.tracker, takes ? &job : nullptr, described, issued, moves.payload);
        jobs_.tick(put, put ? *put : job, takes);
        descriptors_.tick(described, transfer, moves.descriptor);
        payload_.tick(read, {}, moves.payload);
        reading_ = issued;
        rest_.note(put || moves.sent || credited || read || takes || described || issued, [this] {
            return reads_.empty() && jobs_.settled() && descriptors_.settled() &&
                   payload_.settled();
        });
    }

private:
    int client_;
    Issuer issuer_;
    Fifo<Job> jobs_;
    QuickFifo<int32_t> descriptors_;
    QuickFifo<Nothing> payload_;
    Delay reads_;  // a register, then memory's latency
    bool reading_ = false;
    Rest rest_;
};

}  // namespace exact
