// A port's receiver that forwards what it writes (nic/receive/receiver.py).
#pragma once
#include "chunk_source.h"
#include "link.h"
#include "reducer.h"

namespace exact {

// A message whose head was read.
struct Message {
    int32_t transfer = NONE, wave = 0;
    bool single = false;
};

// Looks heads up while what is behind them passes (nic/receive/head_reader.py).
class HeadReader {
public:
    explicit HeadReader(Context& context) : context_(&context) {}
    bool looks_up() const { return state_ == LOOK_UP && !valid_; }
    bool valid() const { return valid_; }
    const Message& message() const { return known_; }
    bool waits() const { return state_ == AWAIT && !fresh_; }
    static bool is_first(const Flit& flit) {
        return (flit.kind == HEAD && !flit.continued) || flit.kind == SINGLE;
    }
    bool takes(bool running, bool has_flit, const Flit& flit) const {
        return running && has_flit && is_first(flit) && state_ == AWAIT;
    }
    // `ready`: the queue of messages has room.
    void tick(bool head, const Flit& flit, bool granted, bool ready) {
        const bool found = state_ == CHECK;
        if (ready) valid_ = false;
        if (context_->sizes.repeats ? fresh_ : found) valid_ = true;
        if (found) known_ = hand_;
        fresh_ = found;
        switch (state_) {
        case AWAIT:
            if (head) take(flit);
            break;
        case LOOK_UP:
            if (granted) state_ = READ;
            break;
        case READ: state_ = CHECK; break;
        case CHECK: state_ = AWAIT; break;
        }
    }

private:
    enum State { AWAIT, LOOK_UP, READ, CHECK };
    Context* context_;
    State state_ = AWAIT;
    Message hand_, known_;
    bool valid_ = false, fresh_ = false;

    void take(const Flit& flit) {
        // Links keep order: the k-th head of a transfer is that of its wave k.
        hand_ = {flit.transfer, context_->came_waves[size_t(flit.transfer)]++, flit.kind == SINGLE};
        state_ = LOOK_UP;
    }
};

// Passes payload on at once, message by message (nic/receive/forwarding_header_check.py).
class ForwardingHeaderCheck {
public:
    explicit ForwardingHeaderCheck(const Context& context) : context_(&context) {}
    // Whether the job of the message in hand is offered, and that job.
    bool announces() const { return pending_; }
    Chunk job() const {
        const Transfer& transfer = context_->transfers[hand_.transfer];
        const int32_t size = left_.some() ? transfer.size : 0;
        return {hand_.transfer, hand_.wave, transfer.before, size, transfer.replaces ? 0 : size,
                false, 0};
    }
    Item item() const {
        const bool last = left_.last();
        const Transfer& transfer = context_->transfers[hand_.transfer];
        return {bool(transfer.replaces), last || ends(), {hand_.transfer, next_count_, last, false}};
    }
    bool passes(bool may_pass, bool has_flit) const { return state_ == PASS && may_pass && has_flit; }
    bool takes_head() const { return state_ == NEXT_HEAD; }
    bool reports(bool may_pass, bool drained) const {
        return state_ == REPORT && may_pass && drained;
    }
    Mark empty() const { return {hand_.transfer, next_count_, true, false}; }
    // Whether the next message is taken in hand.
    bool begins(bool moved) const {
        return state_ == IDLE || (state_ == PASS && moved && left_.last());
    }
    // What it reports of the message in hand from the next cycle on, where it begins.
    Report report() const {
        return {hand_.transfer, Beginning::of(hand_.wave, passed_)};
    }
    void tick(bool running, const Message* next, bool moved, bool head, bool announced,
              bool reported) {
        const bool end = moved && (left_.last() || ends());
        passed_ = running ? passed_ + moved : 0;
        pending_ = running && (next || (pending_ && !announced));
        if (state_ == PASS && moved && left_.last()) state_ = IDLE;
        else if (state_ == PASS && end && context_->sizes.packets) state_ = NEXT_HEAD;
        else if (head) state_ = PASS;
        else if (reported) state_ = IDLE;
        place_ = end ? 0 : place_ + moved;
        next_count_ += end;
        if (next) {
            hand_ = *next;
            place_ = 0;
            next_count_ = context_->count(hand_.wave, 1);
            state_ = hand_.single ? REPORT : PASS;
        }
        left_.tick(next, next ? context_->transfers[next->transfer].size : 0, moved);
    }

private:
    enum State { IDLE, PASS, NEXT_HEAD, REPORT };
    const Context* context_;
    State state_ = IDLE;
    Message hand_;
    Countdown left_;
    int32_t place_ = 0;
    uint64_t next_count_ = 0;
    int64_t passed_ = 0;
    bool pending_ = false;

    bool ends() const { return place_ == context_->sizes.submessage_flits - 1; }
};

// Holds writes back until those before them at their addresses are in (nic/reduce/forwarding_reducer.py).
class WriteOrder {
public:
    explicit WriteOrder(const Context& context) : context_(&context), queue_(QUEUED_WRITES) {}
    bool ready() const { return queue_.ready(); }
    bool may() const { return has_ && (!tracked_ || left_ > 0); }
    bool settled() const { return queue_.settled(); }
    // Returns whether something other than a write has moved.
    bool tick(const Positions& positions, const Chunk* put, bool moved, bool last) {
        const bool load = queue_.valid() && (!has_ || (moved && last));
        const Entry front = queue_.front();
        const int64_t was = left_;
        position_ += moved;
        if (load) {
            has_ = true;
            tracked_ = front.tracked;
            port_ = front.port;
            position_ = front.position;
        } else if (moved && last) {
            has_ = false;
        }
        left_ = positions.acknowledged[port_] - position_;
        queue_.tick(put, put ? entry(*put) : front, load);
        return load || (tracked_ && has_ && left_ != was);
    }

private:
    struct Entry {
        bool tracked;
        int32_t port;
        int64_t position;
    };
    const Context* context_;
    QuickFifo<Entry> queue_;
    bool has_ = false, tracked_ = false;
    int32_t port_ = 0;
    int64_t position_ = 0, left_ = 0;

    Entry entry(const Chunk& chunk) const {
        const int32_t port = chunk.need == NONE ? 0 : context_->transfers[chunk.need].dst_port;
        return {chunk.tracked, port, chunk.position};
    }
};

class ForwardingReceiver {
public:
    LinkBuffer buffer;

    ForwardingReceiver(Context& context, int client)
        : buffer(1, uint32_t(context.sizes.buffer_flits)), reader_(context), check_(context),
          // Siblings follow each other flit by flit even where rows wait for whole chunks.
          source_(context, client, true), order_(context), reducer_(context.sizes),
          ahead_(AHEAD_FLITS), messages_(QUEUED_HEADS) {}
    bool looks_up() const { return reader_.looks_up(); }
    int32_t question() const { return source_.question(); }
    // What it reports in this cycle, or nullptr; and that a message has begun.
    const Mark* arrival() const { return empty_ ? &report_ : reducer_.arrival(); }
    const Report* beginning() const { return begun_ ? &beginning_ : nullptr; }
    int64_t written() const { return written_; }
    int64_t acknowledged() const { return acknowledged_; }
    bool asleep() const { return rest_.asleep(); }
    bool wakes(uint64_t now, const CommonState& common) const {
        return buffer.comes(now) || common.moved ||
               source_.wakes(common.tracker, common.beginnings);
    }

    void tick(uint64_t now, bool running, bool granted, const CommonState& common) {
        const bool works = !reader_.waits();
        const Flit flit = buffer.front();
        const bool head = reader_.takes(running, buffer.valid(), flit);
        const bool goes_ahead =
            running && buffer.valid() && !HeadReader::is_first(flit) && ahead_.ready();
        // A message that finds none before it passes the queue.
        const bool passes = messages_.empty();
        const bool has_message = passes ? reader_.valid() : messages_.valid();
        const Message next = passes ? reader_.message() : messages_.front();

        const bool idle = reducer_.idle() && source_.idle() && !check_.announces();
        const Chunk job = check_.announces() ? check_.job() : Chunk{};
        const bool source_ready = source_.ready(job, running);
        const bool announced = running && check_.announces() && source_ready;
        const bool may_pass = running && (!check_.announces() || source_ready);
        const bool moved = check_.passes(may_pass, ahead_.valid()) && reducer_.ready();
        const Item item = moved ? check_.item() : Item{};
        const bool next_head = running && check_.takes_head() && ahead_.valid();
        const bool reported = check_.reports(may_pass, idle);
        const bool begins = running && has_message && check_.begins(moved);
        report_ = check_.empty();
        check_.tick(running, begins ? &next : nullptr, moved, next_head, announced, reported);
        beginning_ = check_.report();
        begun_ = reported || (begins && !next.single);

        const bool queued = reader_.valid() && messages_.ready() && !(passes && begins);
        const Message message = reader_.message();
        reader_.tick(head, flit, granted, messages_.ready());
        messages_.tick(queued, message, begins && !passes);
        ahead_.tick(goes_ahead, flit, moved || next_head);
        const bool comes = buffer.comes(now);
        buffer.tick(now, head || goes_ahead);
        const bool works_on = reduce(now, running, common, moved ? &item : nullptr,
                                     announced ? &job : nullptr);
        empty_ = reported;
        rest_.note(works || head || goes_ahead || moved || next_head || reported || begins ||
                       announced || queued || comes || works_on,
                   [this] {
                       return buffer.settled() && ahead_.settled() && messages_.settled() &&
                              source_.settled() && order_.settled() && reducer_.idle();
                   });
    }

private:
    HeadReader reader_;
    ForwardingHeaderCheck check_;
    ChunkSource source_;
    WriteOrder order_;
    Reducer reducer_;
    QuickFifo<Flit> ahead_;
    QuickFifo<Message> messages_;
    int64_t written_ = 0, acknowledged_ = 0;  // nic/forward/positions.py
    bool empty_ = false, begun_ = false;
    Mark report_;
    Report beginning_ = {};
    Rest rest_;

    // A cycle of the reducer and what it reads and writes; returns whether its source has moved.
    bool reduce(uint64_t now, bool running, const CommonState& common, const Item* item,
                const Chunk* job) {
        const Chunk* begins = source_.begins(running, common.tracker, common.beginnings);
        const bool begun = begins && order_.ready();
        const bool has_operand = source_.valid(), may_write = order_.may();
        const bool written = reducer_.writes() && may_write;
        const bool ordered = order_.tick(common.positions, begun && begins->size ? begins : nullptr,
                                         written, reducer_.writes_last());
        const bool moved = source_.tick(now, running, common.beginnings, common.positions, job,
                                        begun, reducer_.adds(has_operand));
        const bool coming = reducer_.coming();
        const bool ack = reducer_.tick(now, item, has_operand, may_write);
        written_ = running ? written_ + coming : 0;
        acknowledged_ = running ? acknowledged_ + ack : 0;
        return moved || ordered;
    }
};

}  // namespace exact
