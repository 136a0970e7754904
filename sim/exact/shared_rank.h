// An interface on shared links: what came goes to the sequencer (nic/top/shared_core.py).
#pragma once
#include "tracker.h"
#include "control.h"
#include "fetcher.h"
#include "link.h"
#include "reorder_buffer.h"
#include "sender.h"
#include "sequencer.h"
#include "shared_receiver.h"

#include <memory>

namespace exact {

class SharedRank final : public Node {
public:
    SharedRank(Context& context, int64_t first_row, int64_t end_row, int64_t start,
               int64_t expected)
        : context_(&context), num_ports_(int(context.sizes.num_ports)),
          common_(num_ports_, context.counts, context.begun),
          fetcher_(context, first_row, end_row), control_(start, expected),
          sequencer_(context, num_ports_), reorder_(context) {
        for (int port = 0; port < num_ports_; ++port)
            ports_.push_back(std::make_unique<Port>(context, port));
    }
    void join_out(int port, Link* link) override { ports_[size_t(port)]->sender.output.link = link; }
    void join_in(int port, Link* link) override { ports_[size_t(port)]->receiver.buffer.link = link; }
    bool finished() const override { return control_.finished(); }
    int64_t done() const override { return control_.done(); }
    void run(uint64_t from, uint64_t to) override {
        for (uint64_t now = from; now < to && !control_.finished(); ++now) tick(now);
    }

private:
    struct Port {
        Sender sender;
        SharedReceiver receiver;
        Port(Context& context, int port) : sender(context, port), receiver(context) {}
    };
    Context* context_;
    int num_ports_;
    std::vector<std::unique_ptr<Port>> ports_;
    CommonState common_;
    RoundRobin flows_;  // who looks a flow up: receivers, the reorder buffer, then the fetcher
    Fetcher fetcher_;
    Control control_;
    Sequencer sequencer_;
    ReorderBuffer reorder_;
    uint32_t lookups_ = 0, claims_ = 0, arrivals_ = 0;  // a bit per receiver
    uint32_t sending_ = 0;                              // senders that are not idle
    bool wakes_ = false;                                // it runs from this cycle on

    void tick(uint64_t now) {
        const bool running = control_.running(), launches = control_.launches(now);
        const Sequencer::Word word = sequence();
        const Report report = {word.completed, 1};
        common_.tracker.begin(&report, word.completed != NONE);
        if (word.counted != NONE) context_->note_arrived(word.counted, 1, now + 1);
        const uint32_t asks = lookups_ | uint32_t(reorder_.looks_up()) << num_ports_ |
                              uint32_t(fetcher_.looks_up()) << (num_ports_ + 1);
        const int granted = flows_.grant(asks);
        flows_.advance(granted);
        const Offer offer = fetcher_.offer();
        const bool taken = offer.port != NO_PORT && ports_[size_t(offer.port)]->sender.has_room();
        control_.tick(now, word.counted != NONE, fetcher_.busy(), sending_ != 0);
        fetcher_.tick(launches, granted == num_ports_ + 1, taken);
        const bool free = !ports_[0]->sender.reading();
        const Item staged = reorder_.item();
        bool moved = false;
        for (int port = 0; port < num_ports_; ++port) {
            const bool put = taken && offer.port == port;
            send(now, port, running, put ? &offer.job : nullptr);
            const bool offers = port == 0 && reorder_.valid(running);
            moved |= receive(now, port, running, granted == port, word, offers ? &staged : nullptr);
        }
        if (!reorder_.asleep() || word.drain != NONE || wakes_)
            reorder_.tick(now, running, word.drain, granted == num_ports_, free, moved);
        wakes_ = launches;
    }
    // What the sequencer says in this cycle, of what ports report and claim.
    Sequencer::Word sequence() {
        const Mark* marks[MOST_PORTS] = {};
        for (; arrivals_; arrivals_ &= arrivals_ - 1) {
            const int port = __builtin_ctz(arrivals_);
            marks[port] = ports_[size_t(port)]->receiver.arrival();
        }
        const auto claim = [this](int port) {
            const SharedReceiver& receiver = ports_[size_t(port)]->receiver;
            return Claim{receiver.transfer(), receiver.empty()};
        };
        return sequencer_.tick(marks, claims_, claim, reorder_.ready());
    }
    void send(uint64_t now, int port, bool running, const Job* put) {
        Sender& sender = ports_[size_t(port)]->sender;
        if (sender.asleep() && !put && !wakes_ && !sender.wakes(now, common_)) return;
        sender.tick(now, running, put, common_);
        common_.tracker.ask(port, sender.question());
        set(sending_, port, !sender.idle());
    }
    // Returns whether a staged flit is taken.
    bool receive(uint64_t now, int port, bool running, bool granted, const Sequencer::Word& word,
                 const Item* staged) {
        SharedReceiver& receiver = ports_[size_t(port)]->receiver;
        const bool answered = word.answered == port;
        if (receiver.asleep() && !wakes_ && !granted && !answered && !staged &&
            word.turn.behind == NONE && !receiver.wakes(now))
            return false;
        const Verdict* verdict = answered ? &word.verdict : nullptr;
        const bool taken = receiver.tick(now, running, granted, verdict, word.turn, staged);
        set(lookups_, port, receiver.looks_up());
        set(claims_, port, receiver.claims());
        set(arrivals_, port, receiver.arrival() != nullptr);
        return taken;
    }
    static void set(uint32_t& bits, int port, bool value) {
        bits = (bits & ~(1u << port)) | uint32_t(value) << port;
    }
};

}  // namespace exact
