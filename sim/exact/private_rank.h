// An interface on private links: ports, fetcher, trackers and control (nic/top/core.py).
#pragma once
#include "control.h"
#include "forwarding_receiver.h"
#include "forwarding_sender.h"
#include "link.h"
#include "pipelined_fetcher.h"
#include "receiver.h"
#include "sender.h"

#include <memory>
#include <type_traits>

namespace exact {

// With `FORWARDS` it is one that forwards what comes in before memory has it.
template <bool FORWARDS> class PrivateRank final : public Node {
    using Sending = std::conditional_t<FORWARDS, ForwardingSender, Sender>;
    using Receiving = std::conditional_t<FORWARDS, ForwardingReceiver, Receiver>;
    using Fetching = std::conditional_t<FORWARDS, PipelinedFetcher, Fetcher>;

public:
    PrivateRank(Context& context, int64_t first_row, int64_t end_row, int64_t start,
                int64_t expected)
        : context_(&context), num_ports_(int(context.sizes.num_ports)),
          common_(2 * num_ports_, context.counts, context.begun),
          fetcher_(context, first_row, end_row), control_(start, expected) {
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
        Sending sender;
        Receiving receiver;
        Port(Context& context, int port)
            : sender(context, 2 * port), receiver(context, 2 * port + 1) {}
    };
    Context* context_;
    int num_ports_;
    std::vector<std::unique_ptr<Port>> ports_;
    CommonState common_;
    RoundRobin flows_;  // who looks a flow up: every port's receiver, then the fetcher
    Fetching fetcher_;
    Control control_;
    uint32_t lookups_ = 0;   // receivers that look a flow up
    uint32_t arrivals_ = 0;  // receivers that report something
    uint32_t begun_ = 0;     // those that report a message that has begun
    uint32_t sending_ = 0;   // senders that are not idle
    bool wakes_ = false;     // it runs from this cycle on

    // What a cycle's outputs are follows from registers; then every block moves on by an edge.
    void tick(uint64_t now) {
        const bool running = control_.running(), launches = control_.launches(now);
        const int num_arrived = begin(now);
        const uint32_t asks = lookups_ | uint32_t(fetcher_.looks_up()) << num_ports_;
        const int granted = flows_.grant(asks);
        flows_.advance(granted);
        const Offer offer = fetcher_.offer();
        const bool taken = offer.port != NO_PORT && ports_[size_t(offer.port)]->sender.has_room();
        control_.tick(now, num_arrived, fetcher_.busy(), sending_ != 0);
        fetcher_.tick(launches, granted == num_ports_, taken);
        for (int port = 0; port < num_ports_; ++port) {
            const bool put = taken && offer.port == port;
            send(now, port, running, put ? &offer.job : nullptr);
            receive(now, port, running, granted == port);
        }
        if (FORWARDS) note_positions();
        wakes_ = launches;
    }
    // Begins the trackers' cycle with what ports report; returns messages that are in for good.
    int begin(uint64_t now) {
        Report reports[MOST_PORTS];
        int num_reports = 0, num_arrived = 0;
        for (; arrivals_; arrivals_ &= arrivals_ - 1) {
            const Mark& mark = *ports_[size_t(__builtin_ctz(arrivals_))]->receiver.arrival();
            reports[num_reports++] = {mark.transfer, mark.count};
            num_arrived += mark.last && context_->note_arrived(mark.transfer, mark.count, now + 1);
        }
        common_.tracker.begin(reports, num_reports);
        if constexpr (FORWARDS) {
            num_reports = 0;
            for (; begun_; begun_ &= begun_ - 1)
                reports[num_reports++] =
                    *ports_[size_t(__builtin_ctz(begun_))]->receiver.beginning();
            common_.beginnings.begin(reports, num_reports);
        }
        return num_arrived;
    }
    void send(uint64_t now, int port, bool running, const Job* put) {
        Sending& sender = ports_[size_t(port)]->sender;
        if (sender.asleep() && !put && !wakes_ && !sender.wakes(now, common_)) return;
        sender.tick(now, running, put, common_);
        ask(2 * port, sender.question());
        set(sending_, port, !sender.idle());
    }
    void receive(uint64_t now, int port, bool running, bool granted) {
        Receiving& receiver = ports_[size_t(port)]->receiver;
        if (receiver.asleep() && !wakes_ && !receiver.wakes(now, common_)) return;
        receiver.tick(now, running, granted, common_);
        ask(2 * port + 1, receiver.question());
        set(lookups_, port, receiver.looks_up());
        set(arrivals_, port, receiver.arrival() != nullptr);
        if constexpr (FORWARDS) set(begun_, port, receiver.beginning() != nullptr);
    }
    void ask(int client, int32_t transfer) {
        common_.tracker.ask(client, transfer);
        if (FORWARDS) common_.beginnings.ask(client, transfer);
    }
    // All ports see each other's positions of one cycle.
    void note_positions() {
        if constexpr (FORWARDS) {
            common_.moved = false;
            for (int port = 0; port < num_ports_; ++port) {
                const Receiving& receiver = ports_[size_t(port)]->receiver;
                int64_t& written = common_.positions.written[port];
                int64_t& acknowledged = common_.positions.acknowledged[port];
                common_.moved = common_.moved || written != receiver.written() ||
                                acknowledged != receiver.acknowledged();
                written = receiver.written();
                acknowledged = receiver.acknowledged();
            }
        }
    }
    static void set(uint32_t& bits, int port, bool value) {
        bits = (bits & ~(1u << port)) | uint32_t(value) << port;
    }
};

}  // namespace exact
