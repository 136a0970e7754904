// A network of verilated interfaces: wired at run time, clocked in step, driven over a C ABI.
//
// Interfaces and switches meet only across links, so each can run on its own for a window of as
// many cycles as the shortest link is long: its model stays in the processor's cache, and they can
// be shared out to threads. The result does not depend on the number of threads.
#include "harness_crew.h"
#include "harness_rank.h"
#include "harness_switch.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#ifdef MT_TRACE
#include MT_TRACE_HEADER
#endif

namespace {

#ifdef MT_TRACE
constexpr bool TRACED = true;  // everything goes into one file, cycle by cycle
int waveform_error = 0;        // the first error of the system while it was written
#else
constexpr bool TRACED = false;
#endif

#if VM_TRACE_VCD
// Verilator would end the process where the disk is full.
struct TraceFile final : VerilatedVcdFile {
    ssize_t write(const char* data, ssize_t size) override {
        // After the first error nothing more is written: `close_trace` returns it, and the caller
        // drops the file.
        const ssize_t written = waveform_error ? size : VerilatedVcdFile::write(data, size);
        if (written < 0 && errno != EAGAIN && errno != EINTR) waveform_error = errno;
        return waveform_error ? size : written;
    }
};
#endif

class Network {
    std::vector<std::unique_ptr<VerilatedContext>> contexts_;  // outlive the models

public:
    Network(uint32_t num_ranks, uint32_t num_switches, uint32_t num_threads)
        : ranks(num_ranks), switches(num_switches),
          crew_(TRACED ? 1 : std::max(1u, std::min(num_threads, num_ranks + num_switches))) {
        uint16_t number = 0;
        each([&](auto& node) {
            // Nodes in several threads have a context each; a trace file takes models of one only.
            if (!TRACED || number == 0) contexts_.push_back(std::make_unique<VerilatedContext>());
            contexts_.back()->traceEverOn(TRACED);
            node.make(number++, contexts_.back().get());
        });
#ifdef MT_TRACE
        // Made before the contexts, it would ask the thread's last one, which may be gone by now.
        trace_ = make_trace();
#endif
    }
    std::vector<Rank> ranks;
    std::vector<Switch> switches;  // nodes behind the ranks
    uint64_t now = 0;
    bool sleeps = true;           // models whose state repeats are not evaluated
    uint64_t stopped_at = NEVER;  // when a FAULT flit was first sent, and all watches stopped

    void connect(uint32_t src, uint32_t src_port, uint32_t dst, uint32_t dst_port,
                 uint64_t latency, uint64_t credit_latency, uint64_t interval) {
        links_.push_back(std::make_unique<Link>());
        Link& link = *links_.back();
        link.latency = latency;
        link.credit_latency = credit_latency;
        link.interval = interval;
        // What enters a link in a window is due in the next one at the earliest, see Line.
        window_ = std::min(window_, TRACED ? 1 : std::min(latency, credit_latency));
        end_at(src, src_port).out = &link;
        end_at(dst, dst_port).in = &link;
    }
    void set_timing(const Timing& read, const Timing& write, uint64_t seed) {
        for (auto& rank : ranks)
            for (auto& port : rank.ports) {
                port.send_channel.configure(read, seed++);
                port.fetch_channel.configure(read, seed++);
                port.write_channel.configure(write, seed++);
            }
    }
    Status run(uint64_t cycles) {
        for (const uint64_t end = now + cycles; now < end;) {
            run_window(std::min(window_, end - now));
            if (SHARED && stopped_at == NEVER) watch_for_faults();
            bool finished = true;
            // Scripts are looked at between windows only, so that the last one is run to its end.
            for (const auto& rank : ranks) {
                if (rank.status != RUNNING) return rank.status;
                finished = finished && rank.script.finished();
            }
            if (finished) return FINISHED;
        }
        return RUNNING;
    }
    void reset(uint64_t cycles) {
        each([](auto& node) { node.set_reset(1); });
        for (const uint64_t end = now + cycles; now < end; ++now) {
            each([](auto& node) { node.set_clock(0); });
            dump(0);
            each([](auto& node) { node.set_clock(1); });
            dump(500);
        }
        each([](auto& node) {
            node.set_clock(0);
            node.set_reset(0);
        });
    }
    // Forgets all messages seen.
    void forget() {
        for (auto& link : links_) {
            // It is an index into `sent`, which is emptied below.
            link->message = NEVER;
            link->watch = Watch();
        }
        each([](auto& node) { node.each_end([](End& end) { end.sent_fault = false; }); });
        stopped_at = NEVER;
        for (auto& rank : ranks) {
            rank.sent.clear();
            rank.arrived.clear();
        }
    }
    bool inject(const Fault& fault) {
        if (fault.node < ranks.size()) return ranks[fault.node].expect(fault);
        return switches[fault.node - ranks.size()].expect(fault);
    }
    template <typename Work> void each(Work work) {
        for (auto& rank : ranks) work(rank);
        for (auto& node : switches) work(node);
    }
    uint64_t links_idle_from() const {
        uint64_t cycle = 0;
        for (const auto& link : links_) cycle = std::max(cycle, link->idle_from());
        return cycle;
    }
    const Watch& watch(uint32_t link) const { return links_[link]->watch; }
    // Rank, port and address of the first violation.
    void culprit(uint64_t* found) const {
        // It goes downwards, so that the lowest rank is what remains.
        for (size_t r = ranks.size(); r-- > 0;)
            if (ranks[r].status != RUNNING) {
                found[0] = r;
                found[1] = ranks[r].culprit_port;
                found[2] = ranks[r].memory.violating_address;
            }
    }
    bool trace(const char* path, uint64_t from, uint64_t to);
    int close_trace();

private:
    static constexpr uint64_t MOST_CYCLES = 1024;    // per window: interrupts come in between
    static constexpr uint64_t WORTH_A_THREAD = 200;  // node-cycles, against waking threads up
    std::vector<std::unique_ptr<Link>> links_;
    Crew crew_;
    uint64_t window_ = TRACED ? 1 : MOST_CYCLES;
    int parity_ = 0;

    End& end_at(uint32_t node, uint32_t port) {
        if (node < ranks.size()) return ranks[node].ports[port];
        return switches[node - ranks.size()].ends[port];
    }
    // No other node has received the FAULT flit in the window in which it is sent, so the watches
    // stop before another node drops what others wait behind.
    void watch_for_faults() {
        bool sent_fault = false;
        each([&](auto& node) { node.each_end([&](End& end) { sent_fault = sent_fault || end.sent_fault; }); });
        if (!sent_fault) return;
        stopped_at = now;
        for (auto& link : links_) link->watch.stop_sending();
        each([](auto& node) {
            node.each_end([&](End& end) {
                // A node may have dropped what it took since its interrupt: then its mark counts.
                if (end.in) end.in->watch.stop_taking(node.may_drop());
            });
        });
    }
    void run_window(uint64_t cycles) {
        // Outboxes of this parity are filled in this window, those of the other one emptied.
        parity_ = !parity_;
        if (TRACED) {
            trace_cycle();
        } else if (crew_.size() > 1 &&
                   cycles * (ranks.size() + switches.size()) >= WORTH_A_THREAD) {
            crew_.work([&](unsigned part) { run_nodes(part, crew_.size(), cycles); });
        } else {
            run_nodes(0, 1, cycles);
        }
        now += cycles;
    }
    void run_nodes(unsigned first, unsigned stride, uint64_t cycles) {
        for (size_t n = first; n < ranks.size() + switches.size(); n += stride) {
            if (n < ranks.size()) run_node(ranks[n], cycles);
            else run_node(switches[n - ranks.size()], cycles);
        }
    }
    template <typename Node> void run_node(Node& node, uint64_t cycles) {
        node.open_window(parity_);
        for (uint64_t cycle = now; cycle < now + cycles;) {
            const uint64_t passed = sleeps ? node.pass(cycle, now + cycles) : 0;
            cycle += passed;
            if (!passed) node.cycle(cycle++);
        }
    }
#ifdef MT_TRACE
#if VM_TRACE_VCD
    TraceFile file_;
    std::unique_ptr<MT_TRACE> make_trace() { return std::make_unique<MT_TRACE>(&file_); }
#else
    std::unique_ptr<MT_TRACE> make_trace() { return std::make_unique<MT_TRACE>(); }
#endif
    std::unique_ptr<MT_TRACE> trace_;
    uint64_t origin_ = 0, from_ = 0, to_ = 0;  // cycles; the latter two count from origin

    // Inputs change with the falling edge, so that no reader has to guess what was sampled.
    void trace_cycle() {
        each([this](auto& node) {
            node.open_window(parity_);
            node.tick(now);
            node.set_clock(0);
        });
        dump(0);
        each([](auto& node) { node.set_clock(1); });
        dump(500);
    }
    void dump(uint64_t picoseconds) {
        const uint64_t cycle = now - origin_;
        if (trace_->isOpen() && cycle >= from_ && cycle < to_) trace_->dump(1000 * cycle + picoseconds);
    }
#else
    void trace_cycle() {}
    void dump(uint64_t) {}
#endif
};

bool Network::trace(const char* path, uint64_t from, uint64_t to) {
#ifdef MT_TRACE
    trace_->set_time_unit("1ps");
    trace_->set_time_resolution("1ps");
    // Verilator takes no more models once it has dumped.
    each([this](auto& node) { node.trace(trace_.get()); });
    trace_->open(path);
    origin_ = now;
    from_ = from;
    to_ = to;
    return trace_->isOpen();
#else
    (void)path, (void)from, (void)to;
    return false;
#endif
}

// The first error of the system while it was written, or 0.
int Network::close_trace() {
#ifdef MT_TRACE
    trace_->close();
    return std::exchange(waveform_error, 0);
#else
    return 0;
#endif
}

Network& network(void* handle) { return *static_cast<Network*>(handle); }

}  // namespace

// All else is hidden, so that two libraries in one process share no symbols.
#pragma GCC visibility push(default)
extern "C" {
void* mt_create(uint32_t num_ranks, uint32_t num_switches, uint32_t num_threads) {
    return new Network(num_ranks, num_switches, num_threads);
}
void mt_destroy(void* handle) { delete &network(handle); }
void mt_connect(void* handle, uint32_t src, uint32_t src_port, uint32_t dst, uint32_t dst_port,
                uint64_t latency, uint64_t credit_latency, uint64_t interval) {
    network(handle).connect(src, src_port, dst, dst_port, latency, credit_latency, interval);
}
void mt_set_memory(void* handle, uint32_t rank, void* data, uint64_t num_flits) {
    Memory& memory = network(handle).ranks[rank].memory;
    memory.data = static_cast<uint8_t*>(data);
    memory.num_flits = num_flits;
}
void mt_set_timing(void* handle, const Timing* read, const Timing* write, uint64_t seed) {
    network(handle).set_timing(*read, *write, seed);
}
int mt_set_script(void* handle, uint32_t rank, const HostOp* ops, uint64_t num_ops,
                  HostResult* results) {
    Script& script = network(handle).ranks[rank].script;
    // A request on AXI4-Lite must not be withdrawn: the caller lets it end and tries again.
    if (script.in_transfer()) return 0;
    script.load(ops, num_ops, results);
    return 1;
}
void mt_set_backdoor(void* handle, uint8_t open) {
    for (auto& rank : network(handle).ranks) rank.script.backdoor = open;
}
void mt_set_sleeps(void* handle, uint8_t sleeps) { network(handle).sleeps = sleeps; }
uint64_t mt_asleep(void* handle) {
    uint64_t cycles = 0;
    for (const auto& rank : network(handle).ranks) cycles += rank.asleep;
    return cycles;
}
void mt_reset(void* handle, uint64_t cycles) { network(handle).reset(cycles); }
void mt_hold_switches(void* handle, uint8_t level) {
    for (auto& node : network(handle).switches) node.set_reset(level);
}
uint32_t mt_switch_down(void* handle, uint32_t number) {
    return network(handle).switches[number].down();
}
uint64_t mt_links_idle_from(void* handle) { return network(handle).links_idle_from(); }
int mt_run(void* handle, uint64_t cycles) { return network(handle).run(cycles); }
uint64_t mt_cycle(void* handle) { return network(handle).now; }
void mt_culprit(void* handle, uint64_t* found) { network(handle).culprit(found); }
uint64_t mt_events(void* handle, uint32_t rank, uint32_t which, const Event** events) {
    const Rank& asked = network(handle).ranks[rank];
    const std::vector<Event>& list = which ? asked.arrived : asked.sent;
    // The list may move as soon as the network runs on: the caller copies it at once.
    *events = list.data();
    return list.size();
}
uint64_t mt_stopped(void* handle) { return network(handle).stopped_at; }
// Links are numbered as they were connected.
uint64_t mt_crossings(void* handle, uint32_t link, const Crossing** crossings,
                      const uint64_t** taken) {
    const Watch& watch = network(handle).watch(link);
    *crossings = watch.crossings.data();
    *taken = watch.taken;
    return watch.crossings.size();
}
int mt_inject(void* handle, const Fault* fault) {
    return network(handle).inject(*fault);
}
void mt_heal(void* handle) {
    network(handle).each([](auto& node) { node.heal(); });
}
uint64_t mt_pending(void* handle) {
    uint64_t pending = 0;
    network(handle).each([&](auto& node) { pending += node.num_faults_pending(); });
    return pending;
}
void mt_forget(void* handle) { network(handle).forget(); }
void mt_irq_cycles(void* handle, uint64_t* cycles) {
    for (const auto& rank : network(handle).ranks) *cycles++ = rank.irq_cycle;
}
int mt_trace(void* handle, const char* path, uint64_t from, uint64_t to) {
    return network(handle).trace(path, from, to);
}
int mt_close_trace(void* handle) { return network(handle).close_trace(); }
}
#pragma GCC visibility pop
