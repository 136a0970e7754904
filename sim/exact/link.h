// Links: wires of fixed latency, the credits of their near end (hw/link, harness_link.h).
#pragma once
#include "stream.h"
#include "structs.h"

#include <algorithm>

namespace exact {

constexpr uint64_t NEVER = ~0ull;

// A flit: its message's transfer, its kind and, where links are shared, its virtual channel.
struct Flit {
    int32_t transfer;
    Kind kind;
    bool continued;  // a head of a packet behind its message's first
    uint8_t vc, hop;  // hop: switches that it has passed
};

// First in, first out, with the cycle in which each entry comes out.
template <typename Payload> class Timed {
public:
    uint64_t next_due = NEVER;

    void push(uint64_t due, const Payload& payload) {
        if (tail_ - head_ == ring_.size()) grow();
        ring_[tail_++ & (ring_.size() - 1)] = {due, payload};
        if (next_due == NEVER) next_due = due;
    }
    Payload pop() {
        const Payload payload = ring_[head_++ & (ring_.size() - 1)].payload;
        next_due = head_ == tail_ ? NEVER : ring_[head_ & (ring_.size() - 1)].due;
        return payload;
    }

private:
    struct Entry {
        uint64_t due;
        Payload payload;
    };
    std::vector<Entry> ring_ = std::vector<Entry>(16);
    uint32_t head_ = 0, tail_ = 0;

    void grow() {
        std::vector<Entry> larger(2 * ring_.size());
        for (uint32_t i = head_; i != tail_; ++i)
            larger[i & (larger.size() - 1)] = ring_[i & (ring_.size() - 1)];
        ring_.swap(larger);
    }
};

// From one port to another. Flits come out where they enter the link buffer, credits where they
// are counted.
class Link {
public:
    Timed<Flit> flits;
    Timed<uint8_t> credits;  // the virtual channel

    explicit Link(const LinkOf& link)
        : latency_(link.latency), credit_latency_(link.credit_latency), interval_(link.interval) {}
    uint64_t window() const { return std::min(latency_, credit_latency_); }
    // A flit that the transmitter takes in cycle `now`: it is on the wires a cycle later.
    void send(uint64_t now, const Flit& flit) {
        // Fractions of a cycle are carried over: at 2.5 cycles per flit two flits take five.
        const uint64_t enters = std::max((now + 1) << 16, free_at_);
        free_at_ = enters + interval_;
        flits.push(((enters + 0xffff) >> 16) + latency_ + RECEIVE_CYCLES, flit);
    }
    // A flit that leaves the buffer in cycle `now`: its credit is on the wires a cycle later.
    void return_credit(uint64_t now, uint8_t vc = 0) { credits.push(now + 1 + credit_latency_, vc); }

private:
    // The registers `flit` and `entry` of hw/link/receiver.py.
    static constexpr uint64_t RECEIVE_CYCLES = 2;
    uint64_t latency_, credit_latency_, interval_, free_at_ = 0;
};

// Credits of the other end's buffers (hw/link/transmitter.py); `may_send` is whether some are left.
class Credits {
public:
    Credits(int num_vcs, uint32_t flits) : available_(size_t(num_vcs), flits) {}
    bool may_send(int vc = 0) const { return available_[size_t(vc)] != 0; }
    void spend(int vc = 0) { --available_[size_t(vc)]; }
    // Credits that come in this cycle count from the next one on.
    void take(Link& link, uint64_t now) {
        while (link.credits.next_due == now) ++available_[link.credits.pop()];
    }

private:
    std::vector<uint32_t> available_;
};

// The buffers at a link's far end, one per virtual channel (hw/link/receiver.py).
class LinkBuffer {
public:
    Link* link = nullptr;

    LinkBuffer(int num_vcs, uint32_t flits) : queues_(size_t(num_vcs), CutFifo<Flit>(flits)) {}
    bool valid(int vc = 0) const { return queues_[size_t(vc)].valid(); }
    Flit front(int vc = 0) const { return queues_[size_t(vc)].front(); }
    bool settled() const {
        for (const auto& queue : queues_)
            if (!queue.settled()) return false;
        return true;
    }
    bool comes(uint64_t now) const { return link && link->flits.next_due == now; }
    // `taken`: a bit per channel whose flit in front leaves.
    void tick(uint64_t now, uint32_t taken) {
        const bool put = comes(now);
        const Flit flit = put ? link->flits.pop() : Flit{};
        for (uint8_t vc = 0; vc < queues_.size(); ++vc) {
            const bool leaves = taken >> vc & 1;
            if (leaves) link->return_credit(now, vc);
            queues_[vc].tick(put && flit.vc == vc, flit, leaves);
        }
    }

private:
    std::vector<CutFifo<Flit>> queues_;
};

// Whatever runs on its own between links, for a window of cycles: a rank or a switch.
class Node {
public:
    virtual ~Node() = default;
    // Goes through cycles `from` to `to - 1`.
    virtual void run(uint64_t from, uint64_t to) = 0;
    virtual void join_out(int port, Link* link) = 0;
    virtual void join_in(int port, Link* link) = 0;
    virtual bool finished() const { return true; }
    virtual int64_t done() const { return 0; }
};

}  // namespace exact
