// What is read as it is written: where, and how far that is (nic/forward).
#pragma once
#include "tracker.h"
#include "run.h"
#include "stream.h"

namespace exact {

// Where a message begins among what its port writes; 0 is none (`beginning_layout`).
struct Beginning {
    static uint64_t of(int64_t wave, int64_t position) {
        return uint64_t(wave) << WAVE | uint64_t(1) << BEGUN | uint64_t(position);
    }
    static bool begun(uint64_t value) { return value >> BEGUN & 1; }
    static int64_t wave(uint64_t value) { return int64_t(value >> WAVE); }
    static int64_t position(uint64_t value) {
        return int64_t(value & ((uint64_t(1) << BEGUN) - 1));
    }

private:
    static constexpr int BEGUN = 40, WAVE = 41;
};

// A chunk to read: all flits of a transfer's, or none where it is only waited for.
struct Chunk {
    int32_t transfer, wave;
    int32_t need;        // the transfer that writes it, or NONE: it lies in memory
    int32_t size, read;  // flits of the chunk, and those that are read
    bool tracked;        // it is being written, from `position` on
    int64_t position;
};

// What is left of a chunk (hw/stream.py).
class Countdown {
public:
    bool some() const { return left_ != 0; }
    bool last() const { return left_ == 1; }
    void tick(bool load, int32_t amount, bool step) { left_ = load ? amount : left_ - step; }

private:
    int32_t left_ = 0;
};

// Waits until the chunk of each job may be read (chunk_finder.py).
class ChunkFinder {
public:
    // An answer of both trackers: as much as the job needs has come in, or has begun to.
    struct Answer {
        bool begun, whole;
        int64_t position;
        bool offers() const { return begun || whole; }
    };

    ChunkFinder(const Context& context, int client, bool cut_through)
        : context_(&context), client_(client), cut_through_(cut_through) {}
    bool takes() const { return state_ == TAKE; }
    int32_t question() const { return state_ == ASK ? job_.need : NONE; }
    Answer answer(const Tracker& counts, const Tracker& beginnings) const {
        if (state_ == OFFER) return {job_.tracked, !job_.tracked, job_.position};
        Answer answer = {false, false, 0};
        if (state_ != ASK || !asked_) return answer;
        if (begins(beginnings)) {
            const uint64_t value = beginnings.count(client_);
            answer.begun = Beginning::wave(value) == job_.wave;
            answer.position = Beginning::position(value);
        }
        const uint64_t needed = context_->count(job_.wave, uint64_t(context_->parts(job_.size)));
        answer.whole = counts.answers(client_) && counts.count(client_) >= needed &&
                       (lost_ || !cut_through_);
        return answer;
    }
    Chunk found(const Answer& answer) const {
        Chunk chunk = job_;
        chunk.tracked = answer.begun;
        chunk.position = answer.position;
        return chunk;
    }
    // Whether the trackers' answers of this cycle change something.
    bool wakes(const Tracker& counts, const Tracker& beginnings) const {
        return state_ == ASK && (answer(counts, beginnings).offers() || begins(beginnings));
    }
    void tick(const Tracker& beginnings, const Answer& answer, const Chunk* job, bool taken) {
        if (state_ == ASK && begins(beginnings) && asked_ &&
            Beginning::wave(beginnings.count(client_)) > job_.wave)
            lost_ = true;
        asked_ = state_ == ASK;
        switch (state_) {
        case TAKE:
            lost_ = false;
            if (job) {
                job_ = *job;
                state_ = ASK;
            }
            break;
        case ASK:
            job_.tracked = answer.begun;
            job_.position = answer.position;
            if (answer.offers()) state_ = taken ? TAKE : OFFER;
            break;
        case OFFER:
            if (taken) state_ = TAKE;
            break;
        }
    }

private:
    enum State { TAKE, ASK, OFFER };
    const Context* context_;
    int client_;
    bool cut_through_;
    State state_ = TAKE;
    Chunk job_ = {};
    bool asked_ = false, lost_ = false;

    bool begins(const Tracker& beginnings) const {
        return cut_through_ && beginnings.answers(client_) &&
               Beginning::begun(beginnings.count(client_));
    }
};

// Flits from two sources in the order in which they were asked for (`MergedQueue` of chunk_reader.py).
class MergedQueue {
public:
    explicit MergedQueue(uint32_t depth, uint32_t read_cycles)
        : order_(depth), reads_(depth), kept_(depth), memory_(read_cycles + 1) {}
    bool valid() const {
        return order_.valid() && (order_.front() ? kept_.valid() : reads_.valid());
    }
    bool settled() const {
        return order_.settled() && reads_.settled() && kept_.settled() && memory_.empty() &&
               !asked_;
    }
    void tick(uint64_t now, bool asked, bool of_kept, bool taken) {
        const bool front_kept = order_.front();
        const bool read = memory_.take(now);
        if (asked && !of_kept) memory_.put(now);
        // What is asked for is known to the queues a cycle later, when a kept flit comes.
        order_.tick(asked_, of_kept_, taken);
        kept_.tick(asked_ && of_kept_, {}, taken && front_kept);
        reads_.tick(read, {}, taken && !front_kept);
        asked_ = asked;
        of_kept_ = of_kept;
    }

private:
    QuickFifo<uint8_t> order_;
    QuickFifo<Nothing> reads_, kept_;
    Delay memory_;  // a register, then memory's latency
    bool asked_ = false, of_kept_ = false;
};

// Reads chunks as they become known: what was written last, or memory behind it (chunk_reader.py).
class ChunkReader {
public:
    ChunkReader(const Context& context)
        : context_(&context), chunks_(FOUND_CHUNKS), room_(context.sizes.memory_queue_flits),
          queue_(uint32_t(context.sizes.memory_queue_flits), uint32_t(context.sizes.read_cycles)) {}
    bool ready() const { return chunks_.ready(); }
    bool valid() const { return queue_.valid(); }
    // Whether its address is on the memory's read channel in this cycle.
    bool reading() const { return reading_; }
    bool settled() const { return chunks_.settled() && queue_.settled(); }
    // Returns whether a flit is asked for, or more of them may be.
    bool tick(uint64_t now, bool running, const Positions& positions, const Chunk* put,
              bool taken) {
        const bool may = left_.some() && room_ && running;
        const bool of_kept = hand_.tracked && is_kept();
        const bool reads = may && !of_kept && (!hand_.tracked || read_ > 0);
        const bool issue = (may && of_kept) || reads;
        const bool load = chunks_.valid() && (!left_.some() || (issue && left_.last()));
        const int64_t was_written = written_, was_read = read_;
        const Chunk chunk = chunks_.front();
        if (load) hand_ = chunk;
        else hand_.position += issue;
        if (hand_.tracked && hand_.need != NONE) {
            const int port = context_->transfers[hand_.need].dst_port;
            written_ = positions.written[port] - hand_.position;
            read_ = positions.acknowledged[port] - hand_.position;
        }
        left_.tick(load, chunk.read, issue);
        chunks_.tick(put, put ? *put : chunk, load);
        room_ += int64_t(taken) - int64_t(issue);
        queue_.tick(now, issue, of_kept, taken);
        reading_ = reads;
        return issue || load || written_ != was_written || read_ != was_read;
    }

private:
    const Context* context_;
    QuickFifo<Chunk> chunks_;
    Chunk hand_ = {};
    Countdown left_;
    int64_t room_, written_ = 0, read_ = 0;  // beyond the next flit, as known in this cycle
    MergedQueue queue_;
    bool reading_ = false;

    bool is_kept() const {
        return written_ > 0 && written_ <= context_->sizes.forward_flits - STALE_FLITS;
    }
};

// `Register`: the one that it offers, and one more that came while that could not leave.
class Register {
public:
    bool ready() const { return ready_; }
    bool valid() const { return valid_; }
    void tick(bool put, bool out_ready) {
        if (out_ready || !valid_) {
            valid_ = ready_ ? put : true;
            ready_ = true;
        } else if (ready_) {
            ready_ = !put;
        }
    }

private:
    bool ready_ = true, valid_ = false;
};

// Reads chunks that lie in memory, ahead of their use (`LocalReader` of chunk_reader.py).
class LocalReader {
public:
    explicit LocalReader(const Parameters& sizes)
        : room_(sizes.memory_queue_flits), queue_(uint32_t(sizes.memory_queue_flits)),
          memory_(uint32_t(sizes.read_cycles)) {}
    bool issues(bool running) const { return left_.some() && room_ && running && reads_.ready(); }
    bool ready(bool running) const { return !left_.some() || (issues(running) && left_.last()); }
    bool valid() const { return queue_.valid(); }
    bool settled() const { return !reads_.valid() && memory_.empty() && queue_.settled(); }
    // `free`: the read channel is its own in this cycle.
    void tick(uint64_t now, bool running, const int32_t* put, bool free, bool taken) {
        const bool issue = issues(running);
        const bool came = memory_.take(now);
        if (reads_.valid() && free) memory_.put(now);
        reads_.tick(issue, free);
        left_.tick(put != nullptr, put ? *put : 0, issue);
        room_ += int64_t(taken) - int64_t(issue);
        queue_.tick(came, {}, taken);
    }

private:
    Countdown left_;
    int64_t room_;
    Register reads_;
    QuickFifo<Nothing> queue_;
    Delay memory_;
};

}  // namespace exact
