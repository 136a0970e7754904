// A port's sender: issuer, framer and what is between them (nic/send/sender.py).
#pragma once
#include "link.h"
#include "run.h"
#include "tracker.h"

namespace exact {

// Credits of the other end's buffers (hw/link/transmitter.py); `may_send` is whether some are left.
class Credits {
public:
    Credits(int num_vcs, uint32_t flits) : available_(size_t(num_vcs), flits) {}
    bool may_send(int vc = 0) const { return available_[size_t(vc)] != 0; }
    void spend(int vc = 0) { --available_[size_t(vc)]; }
    // Credits that come in this cycle count from the next one on.
    bool take(Link& link, uint64_t now) {
        if (link.credits.next_due != now) return false;
        ++available_[link.credits.pop()];
        return true;
    }

private:
    std::vector<uint32_t> available_;
};

// A head flit per message or packet, then payload, the last one the tail (nic/send/framer.py).
class Framer {
public:
    explicit Framer(const Context& context) : context_(&context) {}
    // In hand, or offered.
    int32_t message(int32_t offered) const { return begun_ || in_body_ ? held_ : offered; }
    bool idle(bool has_descriptor) const { return !in_body_ && !begun_ && !has_descriptor; }
    // Whether it offers a flit, and which.
    bool offers(bool has_descriptor, bool has_payload) const {
        return in_body_ ? has_payload : begun_ || has_descriptor;
    }
    Kind kind(int32_t offered) const {
        if (!in_body_) return !begun_ && !size(offered) ? SINGLE : HEAD;
        return is_last() ? TAIL : BODY;
    }
    bool continues() const { return begun_; }
    bool takes_payload() const { return in_body_; }
    // An edge behind a cycle in which the flit that is offered was taken.
    void move(int32_t offered) {
        if (in_body_) {
            const bool last = is_last();
            begun_ = --left_ != 0;
            ++place_;
            in_body_ = !last;
        } else {
            if (!begun_) {
                held_ = offered;
                left_ = size(offered);
            }
            place_ = 0;
            in_body_ = left_ != 0;
        }
    }

private:
    const Context* context_;
    bool in_body_ = false, begun_ = false;
    int32_t held_ = NONE, left_ = 0, place_ = 0;

    int32_t size(int32_t transfer) const { return context_->transfers[transfer].size; }
    bool is_last() const {
        const auto& sizes = context_->sizes;
        return left_ == 1 || (sizes.packets && place_ == sizes.submessage_flits - 1);
    }
};

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

    int32_t need() const { return context_->transfers[job_.transfer].need; }
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
    Link* out = nullptr;

    Sender(Context& context, int client)
        : context_(&context), client_(client), issuer_(context, client), framer_(context),
          credits_(int(context.sizes.num_vcs), uint32_t(context.sizes.buffer_flits)),
          jobs_(JOB_QUEUE_DEPTH), descriptors_(4),
          payload_(uint32_t(context.sizes.memory_queue_flits)),
          reads_(uint32_t(context.sizes.read_cycles) + 1) {}

    bool has_room() const { return jobs_.ready(); }
    int32_t question() const { return issuer_.question(); }
    bool idle() const {
        return jobs_.empty() && issuer_.takes() && descriptors_.empty() && framer_.idle(false);
    }
    // Whether its address is on the memory's read channel in this cycle.
    bool reading() const { return reading_; }
    // Whether it stays as it is until something comes in.
    bool asleep() const { return rest_.asleep(); }
    bool wakes(uint64_t now, const Tracker& tracker) const {
        if (out && out->credits.next_due == now) return true;
        return tracker.answers(client_) && issuer_.gate(tracker);
    }

    void tick(uint64_t now, bool running, const Job* put, const Tracker& tracker) {
        const int32_t offered = descriptors_.front();
        const bool has_descriptor = descriptors_.valid(), has_payload = payload_.valid();
        const bool sends = running && framer_.offers(has_descriptor, has_payload);
        const int32_t message = framer_.message(offered);
        const bool sent = sends && credits_.may_send(vc_of(message));
        const bool returned = sent && framer_.takes_payload();
        const bool begins = sent && !returned && !framer_.continues();
        const bool gate = issuer_.gate(tracker);
        const bool takes = running && issuer_.takes() && jobs_.valid();
        const bool described = running && issuer_.offers(gate) && descriptors_.ready();
        const bool issued = running && issuer_.issues(gate, described);
        const Job job = jobs_.front();
        const int32_t described_transfer = issuer_.transfer();
        if (sent) {
            send(now, message, begins);
            framer_.move(offered);
        }
        const bool credited = out && credits_.take(*out, now);
        const bool read = reads_.take(now);
        if (issued) reads_.put(now);
        issuer_.tick(tracker, takes ? &job : nullptr, described, issued, returned);
        jobs_.tick(put, put ? *put : job, takes);
        descriptors_.tick(described, described_transfer, begins);
        payload_.tick(read, {}, returned);
        reading_ = issued;
        rest_.note(put || sent || credited || read || takes || described || issued, [this] {
            return reads_.empty() && jobs_.settled() && descriptors_.settled() &&
                   payload_.settled();
        });
    }

private:
    static constexpr uint32_t JOB_QUEUE_DEPTH = 4;  // nic/config.py
    Context* context_;
    int client_;
    Issuer issuer_;
    Framer framer_;
    Credits credits_;
    Fifo<Job> jobs_;
    QuickFifo<int32_t> descriptors_;
    QuickFifo<Nothing> payload_;
    Delay reads_;  // a register, then memory's latency
    bool reading_ = false;
    Rest rest_;

    // The collective's number is even: its messages have the lower channel of their class.
    int vc_of(int32_t transfer) const {
        return context_->sizes.num_vcs > 1 && transfer != NONE
                   ? 2 * context_->transfers[transfer].vc_class
                   : 0;
    }
    void send(uint64_t now, int32_t message, bool begins) {
        const int vc = vc_of(message);
        credits_.spend(vc);
        out->send(now, {message, framer_.kind(message), uint8_t(vc), 0});
        if (begins) context_->note_sent(message, now + 1);
    }
};

}  // namespace exact
