// A switch: wormhole channels, the oldest message first (hw/switch).
#pragma once
#include "arbiter.h"
#include "link.h"
#include "run.h"

namespace exact {

// Grants one of several requests to which none is older, equals in turns (`OldestFirst` of
// hw/arbiter.py).
class OldestFirst {
public:
    // `step_of` is the step of a request's message; all are of one collective.
    template <typename StepOf> int grant(uint64_t requests, StepOf step_of) const {
        if (!(requests & (requests - 1))) return turns_.grant(requests);
        uint64_t oldest = 0;
        int32_t least = INT32_MAX;
        for (uint64_t left = requests; left; left &= left - 1) {
            const int request = __builtin_ctzll(left);
            const int32_t step = step_of(request);
            if (step < least) {
                least = step;
                oldest = 0;
            }
            if (step == least) oldest |= uint64_t(1) << request;
        }
        return turns_.grant(oldest);
    }
    void advance(int granted) { turns_.advance(granted); }

private:
    RoundRobin turns_;
};

// One virtual channel of an input: follows each message from head to tail (input.py).
struct SwitchInput {
    Flit held = {};
    bool full = false, carries = false;
    int32_t port = NO_PORT, vc = 0;  // where the message goes, or where its head asks to go

    bool offers() const { return carries && full; }
    bool ends() const { return held.kind == TAIL || held.kind == SINGLE; }
};

// One virtual channel of an output (output.py).
struct SwitchChannel {
    OldestFirst allocator;
    bool busy = false;
    int holder = 0;    // the input whose message has it
    int32_t step = 0;  // of that message
    uint64_t requests = 0;
};

// Channels of odd collectives have nothing to do here: of each class only the even one is kept, and
// inputs are numbered port by port, class by class.
class Switch final : public Node {
public:
    explicit Switch(const Context& context)
        : context_(&context), num_ports_(int(context.sizes.num_switch_ports)),
          num_classes_(int(context.sizes.num_vcs) / 2), inputs_(size_t(num_ports_ * num_classes_)) {
        for (int port = 0; port < num_ports_; ++port) ports_.emplace_back(context.sizes);
    }
    void join_out(int port, Link* link) override { ports_[size_t(port)].out = link; }
    void join_in(int port, Link* link) override { ports_[size_t(port)].buffer.link = link; }
    void run(uint64_t from, uint64_t to) override {
        for (uint64_t now = from; now < to; ++now)
            if (!rest_.asleep() || wakes(now)) tick(now);
    }

private:
    struct Port {
        LinkBuffer buffer;
        Link* out = nullptr;
        Credits credits;
        OldestFirst link;
        std::vector<SwitchChannel> channels;
        explicit Port(const Parameters& sizes)
            : buffer(int(sizes.num_vcs), uint32_t(sizes.buffer_flits)),
              credits(int(sizes.num_vcs), uint32_t(sizes.buffer_flits)),
              channels(size_t(sizes.num_vcs / 2)) {}
    };
    const Context* context_;
    int num_ports_, num_classes_;
    std::vector<Port> ports_;
    std::vector<SwitchInput> inputs_;
    Rest rest_;

    Port& port_of(int input) { return ports_[size_t(input / num_classes_)]; }
    int vc_of(int input) const { return 2 * (input % num_classes_); }
    SwitchInput& input(int number) { return inputs_[size_t(number)]; }
    int32_t step_of(const Flit& flit) const { return context_->transfers[flit.transfer].step; }
    bool wakes(uint64_t now) const {
        for (const Port& port : ports_)
            if (port.buffer.comes(now) || (port.out && port.out->credits.next_due == now)) return true;
        return false;
    }

    void tick(uint64_t now) {
        bool moved = request() || wakes(now);
        uint64_t granted = 0, taken = 0;
        for (auto& port : ports_) send(now, port, granted, taken);
        moved = moved || granted || taken;
        for (int port = 0; port < num_ports_; ++port) moved |= receive(now, port, granted, taken);
        rest_.note(moved, [this] {
            for (const Port& port : ports_)
                if (!port.buffer.settled()) return false;
            return true;
        });
    }
    // Heads ask for the channels that their routes name; returns whether some flit may be taken in.
    bool request() {
        for (auto& port : ports_)
            for (auto& channel : port.channels) channel.requests = 0;
        bool moves = false;
        for (int number = 0; number < int(inputs_.size()); ++number) {
            SwitchInput& each = input(number);
            const LinkBuffer& buffer = port_of(number).buffer;
            const int vc = vc_of(number);
            if (each.carries) {
                moves = moves || (!each.full && buffer.valid(vc));
                continue;
            }
            if (!buffer.valid(vc)) continue;
            const Flit head = buffer.front(vc);
            const Hop& hop = context_->hops[context_->transfers[head.transfer].hops + head.hop];
            each.port = hop.port;
            each.vc = hop.vc_class;
            ports_[size_t(hop.port)].channels[size_t(hop.vc_class)].requests |= uint64_t(1) << number;
        }
        return moves;
    }
    // The link to one flit, each channel to one message.
    void send(uint64_t now, Port& port, uint64_t& granted, uint64_t& taken) {
        uint64_t ready = 0;
        for (int k = 0; k < num_classes_; ++k) {
            const SwitchChannel& channel = port.channels[size_t(k)];
            const bool goes =
                channel.busy && port.credits.may_send(2 * k) && input(channel.holder).offers();
            ready |= uint64_t(goes) << k;
        }
        const int chosen = port.link.grant(ready, [&](int k) { return port.channels[size_t(k)].step; });
        port.link.advance(chosen);
        bool ends = false;
        if (chosen != NO_PORT) {
            const int source = port.channels[size_t(chosen)].holder;
            Flit flit = input(source).held;
            ends = input(source).ends();
            flit.vc = uint8_t(2 * chosen);
            port.credits.spend(2 * chosen);
            port.out->send(now, flit);
            taken |= uint64_t(1) << source;
        }
        if (port.out) port.credits.take(*port.out, now);
        for (int k = 0; k < num_classes_; ++k)
            allocate(port.channels[size_t(k)], k == chosen && ends, granted);
    }
    void allocate(SwitchChannel& channel, bool leaves, uint64_t& granted) {
        if (channel.busy && !leaves) return;
        const auto step = [this](int number) {
            return step_of(port_of(number).buffer.front(vc_of(number)));
        };
        const int chosen = channel.allocator.grant(channel.requests, step);
        channel.allocator.advance(chosen);
        channel.busy = chosen != NO_PORT;
        if (!channel.busy) return;
        channel.holder = chosen;
        channel.step = step(chosen);
        granted |= uint64_t(1) << chosen;
    }
    // What its channels take from their buffers; returns whether something does.
    bool receive(uint64_t now, int port, uint64_t granted, uint64_t taken) {
        LinkBuffer& buffer = ports_[size_t(port)].buffer;
        uint32_t leaves = 0;
        for (int k = 0; k < num_classes_; ++k) {
            const int number = port * num_classes_ + k;
            leaves |= uint32_t(advance(input(number), buffer, 2 * k, granted >> number & 1,
                                       taken >> number & 1))
                      << 2 * k;
        }
        buffer.tick(now, leaves);
        return leaves;
    }
    // An edge of one input; returns whether it takes the flit in front.
    static bool advance(SwitchInput& input, const LinkBuffer& buffer, int vc, bool granted,
                        bool taken) {
        bool takes = granted;
        if (input.carries) {
            const bool ends = input.full && input.ends();
            const bool moves = taken || !input.full;
            takes = moves && !ends && buffer.valid(vc);
            if (moves) input.full = takes;
            if (taken && ends) input.carries = false;
        } else if (granted) {
            input.full = input.carries = true;
        }
        if (takes) {
            input.held = buffer.front(vc);
            ++input.held.hop;
        }
        return takes;
    }
};

}  // namespace exact
