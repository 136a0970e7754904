// A network of verilated interfaces: wired at run time, clocked in step, driven over a C ABI.
//
// Outputs of an interface come from registers, so that interfaces meet only across the delay
// lines of links and memories. Every cycle is one pass over all ranks that samples the outputs of
// this cycle and sets its inputs, and then a clock edge for all of them.
#include "ports.h"

#include "harness_memory.h"
#include "harness_script.h"

#include <memory>
#include <string>

#ifdef MT_TRACE
#include MT_TRACE_HEADER
#endif

namespace {

template <typename T> using Pin = std::remove_reference_t<T>*;

// Where one port's signals lie inside a model.
struct Port {
    uint8_t *tx_valid, *tx_kind, *tx_vc, *tx_sequence, *tx_credit;
    uint8_t *rx_valid, *rx_kind, *rx_vc, *rx_sequence, *rx_credit;
    void *tx_payload, *rx_payload;
    struct Requests {
        uint8_t *valid, *ready, *answer;
        Pin<decltype(Vnic::memory_0_send_address)> address;
        void* data;
    } send, fetch, write;
    uint8_t *monitor_valid, *monitor_op;
    Pin<decltype(Vnic::monitor_0_flow)> monitor_flow;
    Link *out = nullptr, *in = nullptr;
    Channel send_channel, fetch_channel, write_channel;
};

struct Event {
    uint64_t cycle;
    uint32_t num_payload;  // payload flits that went onto the link after a head
    uint16_t flow, sequence;
    uint16_t rank;
    uint8_t port, op;
    uint32_t unused;
};

struct Rank {
    std::unique_ptr<Vnic> nic;
    Port ports[NUM_PORTS];
    Memory memory;
    Script script;
    uint8_t irq = 0;
    uint64_t irq_cycle = 0;  // when it last went up
};

enum Status { RUNNING = 0, FINISHED = 1, BAD_ADDRESS = 2, NO_LINK = 3 };

#define BIND(p)                                                                                  \
    ports[p].tx_valid = &nic.link_##p##_tx_valid;                                                \
    ports[p].tx_kind = &nic.link_##p##_tx_kind;                                                  \
    ports[p].tx_vc = &nic.link_##p##_tx_vc;                                                      \
    ports[p].tx_sequence = &nic.link_##p##_tx_sequence;                                          \
    ports[p].tx_credit = &nic.link_##p##_tx_credit;                                              \
    ports[p].tx_payload = &nic.link_##p##_tx_payload;                                            \
    ports[p].rx_valid = &nic.link_##p##_rx_valid;                                                \
    ports[p].rx_kind = &nic.link_##p##_rx_kind;                                                  \
    ports[p].rx_vc = &nic.link_##p##_rx_vc;                                                      \
    ports[p].rx_sequence = &nic.link_##p##_rx_sequence;                                          \
    ports[p].rx_credit = &nic.link_##p##_rx_credit;                                              \
    ports[p].rx_payload = &nic.link_##p##_rx_payload;                                            \
    ports[p].send = {&nic.memory_##p##_send_valid, &nic.memory_##p##_send_ready,                 \
                     &nic.memory_##p##_send_data_valid, &nic.memory_##p##_send_address,          \
                     &nic.memory_##p##_send_data};                                               \
    ports[p].fetch = {&nic.memory_##p##_fetch_valid, &nic.memory_##p##_fetch_ready,              \
                      &nic.memory_##p##_fetch_data_valid, &nic.memory_##p##_fetch_address,       \
                      &nic.memory_##p##_fetch_data};                                             \
    ports[p].write = {&nic.memory_##p##_write_valid, &nic.memory_##p##_write_ready,              \
                      &nic.memory_##p##_write_ack, &nic.memory_##p##_write_address,              \
                      &nic.memory_##p##_write_data};                                             \
    ports[p].monitor_valid = &nic.monitor_##p##_valid;                                           \
    ports[p].monitor_op = &nic.monitor_##p##_op;                                                 \
    ports[p].monitor_flow = &nic.monitor_##p##_flow;

void bind(Vnic& nic, Port* ports) { FOR_EACH_PORT(BIND) }

class Network {
    VerilatedContext context_;  // outlives the models

public:
    explicit Network(uint32_t num_ranks) : ranks(num_ranks) {
        context_.traceEverOn(true);
        for (uint32_t r = 0; r < num_ranks; ++r) {
            const std::string name = "rank_" + std::to_string(r);
            ranks[r].nic = std::make_unique<Vnic>(&context_, name.c_str());
            bind(*ranks[r].nic, ranks[r].ports);
        }
        set_timing({}, {}, 1);
    }
    std::vector<Rank> ranks;
    std::vector<std::unique_ptr<Link>> links;
    std::vector<Event> events[2];  // messages that left, and messages that arrived
    uint64_t now = 0;
    uint64_t culprit[3] = {};  // rank, port and address of a violation

    void connect(uint32_t src, uint32_t src_port, uint32_t dst, uint32_t dst_port,
                 uint64_t latency, uint64_t interval) {
        links.push_back(std::make_unique<Link>());
        Link& link = *links.back();
        link.latency = latency;
        link.interval = interval;
        link.flits.reserve(latency + BUFFER_FLITS + 2);
        link.credits.reserve(latency + 2);
        ranks[src].ports[src_port].out = &link;
        ranks[dst].ports[dst_port].in = &link;
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
        for (uint64_t end = now + cycles; now < end;) {
            bool finished = true;
            for (uint32_t r = 0; r < ranks.size(); ++r) {
                tick(r);
                finished = finished && ranks[r].script.finished();
            }
            edge();
            ++now;
            if (status_ != RUNNING) return status_;
            if (finished) return FINISHED;
        }
        return RUNNING;
    }
    void reset(uint64_t cycles) {
        for (auto& rank : ranks) rank.nic->rst = 1;
        for (uint64_t end = now + cycles; now < end; ++now) edge();
        for (auto& rank : ranks) rank.nic->rst = 0;
    }
    bool trace(const char* path, uint64_t from, uint64_t to);

private:
    Status status_ = RUNNING;
    uint64_t trace_origin_ = 0, trace_from_ = 0, trace_to_ = 0;  // cycles, all but one from origin
#ifdef MT_TRACE
    std::unique_ptr<MT_TRACE> trace_;
#endif

    void tick(uint32_t r) {
        Rank& rank = ranks[r];
        for (uint32_t p = 0; p < NUM_PORTS; ++p) {
            Port& port = rank.ports[p];
            send_flit(r, p, port);
            receive_flit(port);
            serve_memory(rank.memory, port);
            if (*port.monitor_valid)
                events[1].push_back({now, 0, uint16_t(*port.monitor_flow), 0, uint16_t(r),
                                     uint8_t(p), *port.monitor_op, 0});
        }
        if (rank.memory.violated) fail(BAD_ADDRESS, r, 0, rank.memory.violating_address);
        if (rank.nic->irq && !rank.irq) rank.irq_cycle = now;
        rank.irq = rank.nic->irq;
        rank.script.tick(now, *rank.nic);
    }
    void send_flit(uint32_t r, uint32_t p, Port& port) {
        if (!port.out) {
            if (*port.tx_valid) fail(NO_LINK, r, p, 0);
            return;
        }
        if (*port.tx_valid) {
            Flit& flit = port.out->flits.push(port.out->due(now));
            flit.kind = *port.tx_kind;
            flit.vc = *port.tx_vc;
            flit.sequence = *port.tx_sequence;
            std::memcpy(flit.payload, port.tx_payload, FLIT_BYTES);
            if (flit.kind == BODY || flit.kind == TAIL) {
                if (port.out->message != NEVER) ++events[0][port.out->message].num_payload;
            } else {
                port.out->message = events[0].size();
                events[0].push_back(head_event(r, p, flit.payload));
            }
        }
        *port.tx_credit = port.out->credits.next_due == now;
        if (*port.tx_credit) port.out->credits.pop();
    }
    void receive_flit(Port& port) {
        if (!port.in) return;
        *port.rx_valid = port.in->flits.next_due == now;
        if (*port.rx_valid) {
            const Flit& flit = port.in->flits.pop();
            *port.rx_kind = flit.kind;
            *port.rx_vc = flit.vc;
            *port.rx_sequence = flit.sequence;
            std::memcpy(port.rx_payload, flit.payload, FLIT_BYTES);
        }
        if (*port.rx_credit) port.in->credits.push(now + port.in->latency);
    }
    void serve_memory(Memory& memory, Port& port) {
        serve_read(memory, port.send, port.send_channel);
        serve_read(memory, port.fetch, port.fetch_channel);
        Port::Requests& write = port.write;
        Channel& channel = port.write_channel;
        *write.answer = channel.due(now);
        if (*write.answer) channel.answer_write(memory);
        *write.ready = channel.ready();
        if (*write.valid && *write.ready)
            channel.take_write(now, *write.address, write.data, memory);
    }
    void serve_read(Memory& memory, Port::Requests& read, Channel& channel) {
        *read.answer = channel.due(now);
        if (*read.answer) channel.answer_read(read.data, memory);
        *read.ready = channel.ready();
        if (*read.valid && *read.ready) channel.take_read(now, *read.address, memory);
    }
    Event head_event(uint32_t r, uint32_t p, const uint8_t* payload) const {
        uint64_t head;  // flow in bits 15..0, op in bit 32, collective sequence in bits 47..40
        std::memcpy(&head, payload, sizeof head);
        return {now,         0,          uint16_t(head),         uint16_t(head >> 40 & 0xff),
                uint16_t(r), uint8_t(p), uint8_t(head >> 32 & 1), 0};
    }
    void fail(Status status, uint64_t rank, uint64_t port, uint64_t address) {
        if (status_ != RUNNING) return;
        status_ = status;
        culprit[0] = rank;
        culprit[1] = port;
        culprit[2] = address;
    }
    void set_clock(uint8_t level) {
        for (auto& rank : ranks) {
            rank.nic->clk = level;
            rank.nic->eval();
        }
    }
    void edge() {
#ifdef MT_TRACE
        // Inputs change with the falling edge, so that no reader has to guess what was sampled.
        set_clock(0);
        dump(0);
        set_clock(1);
        dump(500);
#else
        set_clock(1);
        set_clock(0);
#endif
    }
#ifdef MT_TRACE
    void dump(uint64_t picoseconds) {
        const uint64_t cycle = now - trace_origin_;
        if (trace_ && cycle >= trace_from_ && cycle < trace_to_)
            trace_->dump(1000 * cycle + picoseconds);
    }
#endif
};

bool Network::trace(const char* path, uint64_t from, uint64_t to) {
#ifdef MT_TRACE
    trace_ = std::make_unique<MT_TRACE>();
    trace_->set_time_unit("1ps");
    trace_->set_time_resolution("1ps");
    for (auto& rank : ranks) rank.nic->trace(trace_.get(), 99);
    trace_->open(path);
    trace_origin_ = now;
    trace_from_ = from;
    trace_to_ = to;
    return trace_->isOpen();
#else
    (void)path, (void)from, (void)to;
    return false;
#endif
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {
void* mt_create(uint32_t num_ranks) { return new Network(num_ranks); }
void mt_destroy(void* handle) { delete static_cast<Network*>(handle); }
void mt_connect(void* handle, uint32_t src, uint32_t src_port, uint32_t dst, uint32_t dst_port,
                uint64_t latency, uint64_t interval) {
    static_cast<Network*>(handle)->connect(src, src_port, dst, dst_port, latency, interval);
}
void mt_set_memory(void* handle, uint32_t rank, void* data, uint64_t num_flits) {
    Memory& memory = static_cast<Network*>(handle)->ranks[rank].memory;
    memory.data = static_cast<uint8_t*>(data);
    memory.num_flits = num_flits;
}
void mt_set_timing(void* handle, const Timing* read, const Timing* write, uint64_t seed) {
    static_cast<Network*>(handle)->set_timing(*read, *write, seed);
}
int mt_set_script(void* handle, uint32_t rank, const HostOp* ops, uint64_t num_ops,
                  HostResult* results) {
    Script& script = static_cast<Network*>(handle)->ranks[rank].script;
    if (script.in_transfer()) return 0;
    script.load(ops, num_ops, results);
    return 1;
}
void mt_reset(void* handle, uint64_t cycles) { static_cast<Network*>(handle)->reset(cycles); }
int mt_run(void* handle, uint64_t cycles) { return static_cast<Network*>(handle)->run(cycles); }
uint64_t mt_cycle(void* handle) { return static_cast<Network*>(handle)->now; }
void mt_culprit(void* handle, uint64_t* rank_port_address) {
    std::memcpy(rank_port_address, static_cast<Network*>(handle)->culprit, 24);
}
uint64_t mt_events(void* handle, uint32_t which, const Event** events) {
    const auto& list = static_cast<Network*>(handle)->events[which];
    *events = list.data();
    return list.size();
}
void mt_irq_cycles(void* handle, uint64_t* cycles) {
    for (const auto& rank : static_cast<Network*>(handle)->ranks) *cycles++ = rank.irq_cycle;
}
int mt_trace(void* handle, const char* path, uint64_t from, uint64_t to) {
    return static_cast<Network*>(handle)->trace(path, from, to);
}
}
#pragma GCC visibility pop
