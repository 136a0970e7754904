// One rank: its interface, memory and host, and a cycle of them.
#pragma once
#include "harness_clock.h"
#include "harness_memory.h"
#include "harness_poke.h"
#include "harness_script.h"
#include "harness_sleep.h"

#include <array>
#include <memory>
#include <type_traits>

// The C++ type of a signal follows its width, which depends on the configuration.
template <typename T> using Pin = std::remove_reference_t<T>*;

// Where the signals of one port lie inside a model.
struct Port : End {
    struct Requests {
        uint8_t *valid, *ready, *answer, *error;
        Pin<decltype(Vnic::memory_0_send_address)> address;
        void* data;
    } send_reads, fetch_reads, writes;
    uint8_t *monitor_valid, *monitor_op, *monitor_order = nullptr;
    Pin<decltype(Vnic::monitor_0_flow)> monitor_flow;
    Channel send_channel, fetch_channel, write_channel;

    bool uses_memory() const {
        return (*send_reads.valid | *send_reads.answer | *fetch_reads.valid | *fetch_reads.answer |
                *writes.valid | *writes.answer) != 0;
    }
    std::array<Channel*, 3> channels() { return {&send_channel, &fetch_channel, &write_channel}; }
    std::array<const Channel*, 3> channels() const {
        return {&send_channel, &fetch_channel, &write_channel};
    }
};

#if SHARED
#define BIND_ORDER(p) ports[p].monitor_order = &nic.monitor_##p##_order;
#else
#define BIND_ORDER(p)
#endif
#define REQUESTS(p, channel, answered)                                                           \
    {&nic.memory_##p##_##channel##_valid, &nic.memory_##p##_##channel##_ready,                   \
     &nic.memory_##p##_##channel##_##answered, &nic.memory_##p##_##channel##_error,              \
     &nic.memory_##p##_##channel##_address, &nic.memory_##p##_##channel##_data}
#define BIND(p)                                                                                  \
    ports[p].pins = PINS(nic, p);                                                                \
    ports[p].send_reads = REQUESTS(p, send, data_valid);                                         \
    ports[p].fetch_reads = REQUESTS(p, fetch, data_valid);                                       \
    ports[p].writes = REQUESTS(p, write, ack);                                                   \
    ports[p].monitor_valid = &nic.monitor_##p##_valid;                                           \
    ports[p].monitor_op = &nic.monitor_##p##_op;                                                 \
    BIND_ORDER(p)                                                                                \
    ports[p].monitor_flow = &nic.monitor_##p##_flow;

inline void bind(Vnic& nic, Port* ports) { FOR_EACH_PORT(BIND) }

// A message that left, or one that came in.
struct Event {
    uint64_t cycle;
    uint32_t num_payload;  // payload flits that went onto the link after a head
    uint32_t sequence;
    uint16_t flow, rank;
    uint8_t port, op;
    uint16_t place;  // on shared links the step of what left, the order of what came in
};

enum Status { RUNNING = 0, FINISHED = 1, BAD_ADDRESS = 2, NO_LINK = 3 };

class Rank {
public:
    std::unique_ptr<Vnic> nic;
    Port ports[NUM_PORTS];
    Memory memory;
    Script script;
    std::vector<Event> sent, arrived;
    uint64_t asleep = 0;     // cycles that were not evaluated
    uint64_t irq_cycle = 0;  // when the interrupt last went up
    Status status = RUNNING;
    uint64_t culprit_port = 0;

    void make(uint16_t number, VerilatedContext* context) {
        number_ = number;
        const std::string name = "rank_" + std::to_string(number);
        nic = std::make_unique<Vnic>(context, name.c_str());
        bind(*nic, ports);
    }
    // Before a window of cycles: take over what came onto the links in the one before.
    void open_window(int parity) {
        parity_ = parity;
        for (Port& port : ports) port.open_window(parity);
    }
    // A cycle of model, links, memory and host.
    void cycle(uint64_t now) {
        tick(now);
        rise(*nic);
        sleep_.note(moved_ || script.accesses());
    }
    // Cycles from `now` on, at most up to `end`, that pass while nothing happens: their number.
    uint64_t pass(uint64_t now, uint64_t end) {
        if (!sleep_.may_repeat()) return 0;
        const uint64_t next = std::min(end, next_event(now));
        if (next < now + 2 * Sleep::PERIOD) return 0;
        if (!sleep_.repeats()) return sleep_.look(*nic, [&](uint64_t k) { cycle(now + k); });
        const uint64_t most = sleep_.most_cycles(*nic, script.watchdog_cycles);
        const uint64_t cycles = std::min(next - now, most) / Sleep::PERIOD * Sleep::PERIOD;
        if (!cycles) {
            // The watchdog may bite in this cycle, and state then changes without an input.
            sleep_.doubt();
            return 0;
        }
        sleep_.skip(*nic, cycles);
        asleep += cycles;
        return cycles;
    }
    // Samples the outputs of cycle `now` and sets its inputs; outputs come from registers.
    void tick(uint64_t now) {
        // It comes first, so that the outputs that are sampled below show what has flipped.
        moved_ = afflicted_.strike(now, *nic);
        if (nic->irq && !irq_) {
            irq_cycle = now;
            each_end([](End& end) {
                if (end.in) end.in->watch.mark();
            });
        }
        moved_ = moved_ || nic->irq != irq_;
        irq_ = nic->irq;
        // The model is not evaluated in between: all ports see the outputs of one cycle.
        for (uint8_t p = 0; p < NUM_PORTS; ++p) {
            Port& port = ports[p];
            send_flit(now, p);
            port.receive(now, parity_, afflicted_.silent(now));
            serve_memory(now, port);
            moved_ = moved_ || port.moved() || port.uses_memory() || *port.monitor_valid;
            if (*port.monitor_valid)
                arrived.push_back({now, 0, 0, uint16_t(*port.monitor_flow), number_, p,
                                   *port.monitor_op,
                                   uint16_t(SHARED ? *port.monitor_order : 0)});
        }
        if (memory.violated && status == RUNNING) status = BAD_ADDRESS;
        script.tick(now, *nic);
    }
    // Takes a fault that is to strike from its cycle on; false if the model cannot suffer it.
    bool expect(const Fault& fault) {
        if (fault.kind == POKE && fault.port >= NUM_STATES) return false;
        if (afflicted_.take(fault)) return true;
        Port& port = ports[fault.port % NUM_PORTS];
        // Channels are numbered as by `MemoryChannel` of sim/faults/injection.py.
        Channel* channel = port.channels()[fault.value % 3];
        if (fault.kind == STICK) channel->stick(fault.cycle);
        else if (fault.kind == ERROR) channel->fail(fault.cycle);
        else port.expect(fault);
        return true;
    }
    template <typename Work> void each_end(Work work) {
        for (Port& port : ports) work(port);
    }
    // Whether it may drop what comes in.
    bool may_drop() const { return irq_; }
    size_t num_faults_pending() const {
        size_t pending = afflicted_.num_faults_pending();
        for (const Port& port : ports) {
            pending += port.num_faults_pending();
            for (const Channel* channel : port.channels()) pending += channel->may_fail();
        }
        return pending;
    }
    // Nothing more goes wrong on purpose; what has gone wrong stays so.
    void heal() {
        afflicted_.heal();
        for (Port& port : ports) {
            port.heal();
            for (Channel* channel : port.channels()) channel->heal();
        }
    }
    void set_reset(uint8_t level) {
        nic->rst = level;
        sleep_.wake();
    }
    void set_clock(uint8_t level) {
        nic->clk = level;
        nic->eval();
    }
    template <typename Writer> void trace(Writer* writer) { nic->trace(writer, 99); }

private:
    uint16_t number_ = 0;
    uint8_t irq_ = 0;
    int parity_ = 0;
    bool moved_ = false;  // something came in or went out in this cycle, or state was struck
    Afflicted<Vnic> afflicted_;
    Sleep sleep_;

    // The first cycle from `now` on in which inputs change by themselves.
    uint64_t next_event(uint64_t now) const {
        uint64_t next = std::min(script.next_event(now), afflicted_.next());
        for (const Port& port : ports) {
            next = std::min(next, port.next_event());
            for (const Channel* channel : port.channels())
                next = std::min(next, channel->next_event(now));
        }
        return next;
    }
    void send_flit(uint64_t now, uint8_t p) {
        Port& port = ports[p];
        if (port.sends_nowhere() && status == RUNNING) {
            status = NO_LINK;
            culprit_port = p;
        }
        if (!port.send(now, parity_, afflicted_.silent(now))) return;
        Link& link = *port.out;
        const uint8_t kind = *port.pins.tx_kind;
        const uint8_t* payload = static_cast<const uint8_t*>(port.pins.tx_payload);
        if (kind == BODY || kind == TAIL) {
            // There is no event for a message that began before `forget`.
            if (link.message != NEVER) ++sent[link.message].num_payload;
        } else if (kind < DOWN && !continues(payload)) {
            link.message = sent.size();
            sent.push_back(head_event(now, p, payload));
        }
    }
    void serve_memory(uint64_t now, Port& port) {
        serve_read(now, port.send_reads, port.send_channel);
        serve_read(now, port.fetch_reads, port.fetch_channel);
        Port::Requests& write = port.writes;
        Channel& channel = port.write_channel;
        *write.answer = channel.due(now);
        *write.error = *write.answer && channel.fails(now);
        if (*write.answer) channel.answer_write(memory);
        *write.ready = channel.ready(now);
        if (*write.valid && *write.ready)
            channel.take_write(now, *write.address, write.data, memory);
    }
    void serve_read(uint64_t now, Port::Requests& read, Channel& channel) {
        *read.answer = channel.due(now);
        *read.error = *read.answer && channel.fails(now);
        if (*read.answer) channel.answer_read(read.data, memory);
        *read.ready = channel.ready(now);
        if (*read.valid && *read.ready) channel.take_read(now, *read.address, memory);
    }
    // A head's bits: flow in 15..0, op in 32; continued in 33, or on shared links the step in
    // 31..16. Where the collective's number is depends on the interface.
    static unsigned __int128 head_bits(const uint8_t* payload) {
        unsigned __int128 head = 0;
        std::memcpy(&head, payload, std::min<size_t>(sizeof head, FLIT_BYTES));
        return head;
    }
    static bool continues(const uint8_t* payload) {
        return !SHARED && (head_bits(payload) >> 33 & 1);
    }
    Event head_event(uint64_t now, uint8_t p, const uint8_t* payload) const {
        const unsigned __int128 head = head_bits(payload);
        const uint64_t number = uint64_t(head >> SEQUENCE_OFFSET);
        return {now,
                0,
                uint32_t(number & ((uint64_t(1) << SEQUENCE_WIDTH) - 1)),
                uint16_t(head),
                number_,
                p,
                uint8_t(head >> 32 & 1),
                uint16_t(SHARED ? head >> 16 & 0xffff : 0)};
    }
};
