// An interface on private links: ports, fetcher, tracker and control (nic/top/core.py).
#pragma once
#include "control.h"
#include "fetcher.h"
#include "receiver.h"
#include "sender.h"

#include <memory>

namespace exact {

constexpr int MOST_PORTS = 8;

// Whatever runs on its own for a window of cycles, between links.
class Node {
public:
    virtual ~Node() = default;
    // Goes through cycles `from` to `to - 1`.
    virtual void run(uint64_t from, uint64_t to) = 0;
    virtual void join_out(int port, Link* link) = 0;
    virtual void join_in(int port, Link* link) = 0;
    virtual bool finished() const = 0;
    virtual int64_t done() const { return 0; }
};

class PrivateRank final : public Node {
public:
    PrivateRank(Context& context, int64_t first_row, int64_t end_row, int64_t start,
                int64_t expected)
        : context_(&context), num_ports_(int(context.sizes.num_ports)),
          tracker_(2 * num_ports_, true, context.counts), fetcher_(context, first_row, end_row),
          control_(start, expected) {
        for (int port = 0; port < num_ports_; ++port)
            ports_.push_back(std::make_unique<Port>(context, port));
    }
    void join_out(int port, Link* link) override { ports_[size_t(port)]->sender.out = link; }
    void join_in(int port, Link* link) override { ports_[size_t(port)]->receiver.buffer.in = link; }
    bool finished() const override { return control_.finished(); }
    int64_t done() const override { return control_.done(); }
    void run(uint64_t from, uint64_t to) override {
        for (uint64_t now = from; now < to && !control_.finished(); ++now) tick(now);
    }

private:
    struct Port {
        Sender sender;
        Receiver receiver;
        Port(Context& context, int port)
            : sender(context, 2 * port), receiver(context, 2 * port + 1) {}
    };
    Context* context_;
    int num_ports_;
    std::vector<std::unique_ptr<Port>> ports_;
    Tracker tracker_;
    RoundRobin flows_;  // who looks a flow up: every port's receiver, then the fetcher
    Fetcher fetcher_;
    Control control_;
    uint32_t lookups_ = 0;   // receivers that look a flow up
    uint32_t arrivals_ = 0;  // receivers that report something
    uint32_t sending_ = 0;   // senders that are not idle
    bool wakes_ = false;     // it runs from this cycle on

    // What a cycle's outputs are follows from registers; then every block moves on by an edge.
    void tick(uint64_t now) {
        const bool running = control_.running(), launches = control_.launches(now);
        Report reports[MOST_PORTS];
        int num_reports = 0, num_arrived = 0;
        for (; arrivals_; arrivals_ &= arrivals_ - 1) {
            const Mark& mark = *ports_[size_t(__builtin_ctz(arrivals_))]->receiver.arrival();
            reports[num_reports++] = {mark.transfer, mark.count};
            num_arrived += mark.last && context_->note_arrived(mark.transfer, mark.count, now + 1);
        }
        tracker_.begin(reports, num_reports);
        const uint32_t asks = lookups_ | uint32_t(fetcher_.looks_up()) << num_ports_;
        const int granted = flows_.grant(asks);
        flows_.advance(granted);
        const Offer offer = fetcher_.offer();
        const bool taken = offer.port != NOBODY && ports_[size_t(offer.port)]->sender.has_room();
        control_.tick(now, num_arrived, fetcher_.busy(), sending_ != 0);
        fetcher_.tick(launches, granted == num_ports_, taken);
        for (int port = 0; port < num_ports_; ++port) {
            const bool put = taken && offer.port == port;
            send(now, port, running, put ? &offer.job : nullptr);
            receive(now, port, running, granted == port);
        }
        wakes_ = launches;
    }
    void send(uint64_t now, int port, bool running, const Job* put) {
        Sender& sender = ports_[size_t(port)]->sender;
        if (sender.asleep() && !put && !wakes_ && !sender.wakes(now, tracker_)) return;
        sender.tick(now, running, put, tracker_);
        tracker_.ask(2 * port, sender.question());
        set(sending_, port, !sender.idle());
    }
    void receive(uint64_t now, int port, bool running, bool granted) {
        Receiver& receiver = ports_[size_t(port)]->receiver;
        if (receiver.asleep() && !wakes_ && !receiver.wakes(now, tracker_)) return;
        receiver.tick(now, running, granted, tracker_);
        tracker_.ask(2 * port + 1, receiver.question());
        set(lookups_, port, receiver.looks_up());
        set(arrivals_, port, receiver.arrival() != nullptr);
    }
    static void set(uint32_t& bits, int port, bool value) {
        bits = (bits & ~(1u << port)) | uint32_t(value) << port;
    }
};

}  // namespace exact
