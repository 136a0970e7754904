// One rank: its interface, memory and host, and a cycle of them.
#pragma once
#include "harness_memory.h"
#include "harness_poke.h"
#include "harness_script.h"

#include <memory>
#include <type_traits>

template <typename T> using Pin = std::remove_reference_t<T>*;

// Where the signals of one port lie inside a model.
struct Port : End {
    struct Requests {
        uint8_t *valid, *ready, *answer;
        Pin<decltype(Vnic::memory_0_send_address)> address;
        void* data;
    } send_reads, fetch_reads, writes;
    uint8_t *monitor_valid, *monitor_op, *monitor_order = nullptr;
    Pin<decltype(Vnic::monitor_0_flow)> monitor_flow;
    Channel send_channel, fetch_channel, write_channel;
};

#if SHARED
#define BIND_ORDER(p) ports[p].monitor_order = &nic.monitor_##p##_order;
#else
#define BIND_ORDER(p)
#endif
#define BIND(p)                                                                                  \
    ports[p].pins = PINS(nic, p);                                                                \
    ports[p].send_reads = {&nic.memory_##p##_send_valid, &nic.memory_##p##_send_ready,           \
                           &nic.memory_##p##_send_data_valid, &nic.memory_##p##_send_address,    \
                           &nic.memory_##p##_send_data};                                         \
    ports[p].fetch_reads = {&nic.memory_##p##_fetch_valid, &nic.memory_##p##_fetch_ready,        \
                            &nic.memory_##p##_fetch_data_valid, &nic.memory_##p##_fetch_address, \
                            &nic.memory_##p##_fetch_data};                                       \
    ports[p].writes = {&nic.memory_##p##_write_valid, &nic.memory_##p##_write_ready,             \
                       &nic.memory_##p##_write_ack, &nic.memory_##p##_write_address,             \
                       &nic.memory_##p##_write_data};                                            \
    ports[p].monitor_valid = &nic.monitor_##p##_valid;                                           \
    ports[p].monitor_op = &nic.monitor_##p##_op;                                                 \
    BIND_ORDER(p)                                                                                \
    ports[p].monitor_flow = &nic.monitor_##p##_flow;

inline void bind(Vnic& nic, Port* ports) { FOR_EACH_PORT(BIND) }

// A message that left, or one that came in.
struct Event {
    uint64_t cycle;
    uint32_t num_payload;  // payload flits that went onto the link after a head
    uint16_t flow, sequence;
    uint16_t rank;
    uint8_t port, op;
    uint32_t place;  // on shared links the step of what left, the order of what came in
};

enum Status { RUNNING = 0, FINISHED = 1, BAD_ADDRESS = 2, NO_LINK = 3 };

class Rank {
public:
    std::unique_ptr<Vnic> nic;
    Port ports[NUM_PORTS];
    Memory memory;
    Script script;
    std::vector<Event> sent, arrived;
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
    // Samples the outputs of cycle `now` and sets its inputs; outputs come from registers.
    void tick(uint64_t now) {
        if (POKES && now >= next_poke_) poke_memories(now);
        if (nic->irq && !irq_) {
            irq_cycle = now;
            each_end([](End& end) {
                if (end.in) end.in->watch.mark();
            });
        }
        irq_ = nic->irq;
        for (uint8_t p = 0; p < NUM_PORTS; ++p) {
            Port& port = ports[p];
            send_flit(now, p);
            port.receive(now, parity_, now >= silent_from_);
            serve_memory(now, port);
            if (*port.monitor_valid)
                arrived.push_back({now, 0, uint16_t(*port.monitor_flow), 0, number_, p,
                                   *port.monitor_op, SHARED ? *port.monitor_order : 0u});
        }
        if (memory.violated && status == RUNNING) status = BAD_ADDRESS;
        script.tick(now, *nic);
    }
    // Takes a fault that is to strike from its cycle on; false if the model cannot suffer it.
    bool expect(const Fault& fault) {
        Port& port = ports[fault.port % NUM_PORTS];
        if (fault.kind == POKE) {
            pokes_.push_back(fault);
            next_poke_ = std::min(next_poke_, fault.cycle);
            return POKES;
        }
        if (fault.kind == SILENCE) {
            silent_from_ = std::min(silent_from_, fault.cycle);
        } else if (fault.kind == STICK) {
            Channel* channels[] = {&port.send_channel, &port.fetch_channel, &port.write_channel};
            channels[fault.value % 3]->stick(fault.cycle);
        } else if (port.out) {
            faults_.push_back(fault);
            port.out->next_fault = std::min(port.out->next_fault, fault.cycle);
            port.out->struck = port.out->struck || fault.kind == DROP || fault.kind == DELAY;
        }
        return true;
    }
    template <typename Work> void each_end(Work work) {
        for (Port& port : ports) work(port);
    }
    // Whether it may drop what comes in.
    bool may_drop() const { return irq_; }
    size_t num_faults_pending() const { return faults_.size() + pokes_.size(); }
    // Nothing more goes wrong on purpose; what has gone wrong stays so.
    void heal() {
        faults_.clear();
        pokes_.clear();
        next_poke_ = silent_from_ = NEVER;
        for (Port& port : ports) {
            if (port.out) port.out->next_fault = NEVER;
            for (Channel* channel : {&port.send_channel, &port.fetch_channel, &port.write_channel})
                channel->stick(NEVER);
        }
    }
    void set_reset(uint8_t level) { nic->rst = level; }
    void set_clock(uint8_t level) {
        nic->clk = level;
        nic->eval();
    }
    template <typename Writer> void trace(Writer* writer) { nic->trace(writer, 99); }

private:
    uint16_t number_ = 0;
    uint8_t irq_ = 0;
    int parity_ = 0;
    uint64_t silent_from_ = NEVER;
    std::vector<Fault> faults_;  // of flits that have not been struck yet
    std::vector<Fault> pokes_;   // that are to come
    uint64_t next_poke_ = NEVER;

    void poke_memories(uint64_t now) {
        next_poke_ = NEVER;
        std::vector<Fault> later;
        for (const Fault& fault : pokes_) {
            if (fault.cycle > now) {
                later.push_back(fault);
                next_poke_ = std::min(next_poke_, fault.cycle);
            } else {
                poke(*nic, fault);
            }
        }
        pokes_.swap(later);
    }

    // The first fault of the port that is due strikes; the others wait for later flits.
    void strike_flit(uint64_t now, uint8_t p, Flit& flit) {
        Link& link = *ports[p].out;
        auto due = faults_.end();
        link.next_fault = NEVER;
        for (auto fault = faults_.begin(); fault != faults_.end(); ++fault) {
            if (fault->port != p) continue;
            if (due == faults_.end() && fault->cycle <= now) due = fault;
            else link.next_fault = std::min(link.next_fault, fault->cycle);
        }
        if (due == faults_.end()) return;
        strike(link, flit, *due);
        const Flit copy = flit;
        if (due->kind == DUPLICATE) {
            const uint64_t again = link.due(now);
            Flit& second = link.flits.put(again, parity_);
            second = copy;
            second.due = again;
        }
        faults_.erase(due);
    }
    void send_flit(uint64_t now, uint8_t p) {
        Port& port = ports[p];
        if (port.sends_nowhere() && status == RUNNING) {
            status = NO_LINK;
            culprit_port = p;
        }
        Flit* flit = port.send(now, parity_, now >= silent_from_);
        if (!flit) return;
        Link& link = *port.out;
        if (flit->kind == BODY || flit->kind == TAIL) {
            if (link.message != NEVER) ++sent[link.message].num_payload;
        } else if (flit->kind < DOWN && !continues(flit->payload)) {
            link.message = sent.size();
            sent.push_back(head_event(now, p, flit->payload));
        }
        if (now >= link.next_fault) strike_flit(now, p, *flit);
    }
    void serve_memory(uint64_t now, Port& port) {
        serve_read(now, port.send_reads, port.send_channel);
        serve_read(now, port.fetch_reads, port.fetch_channel);
        Port::Requests& write = port.writes;
        Channel& channel = port.write_channel;
        *write.answer = channel.due(now);
        if (*write.answer) channel.answer_write(memory);
        *write.ready = channel.ready(now);
        if (*write.valid && *write.ready)
            channel.take_write(now, *write.address, write.data, memory);
    }
    void serve_read(uint64_t now, Port::Requests& read, Channel& channel) {
        *read.answer = channel.due(now);
        if (*read.answer) channel.answer_read(read.data, memory);
        *read.ready = channel.ready(now);
        if (*read.valid && *read.ready) channel.take_read(now, *read.address, memory);
    }
    // A head's bits: flow in 15..0, op in 32, collective sequence in 47..40; continued in 33, or on
    // shared links the step in 31..16.
    static uint64_t head_bits(const uint8_t* payload) {
        uint64_t head = 0;
        std::memcpy(&head, payload, std::min<size_t>(sizeof head, FLIT_BYTES));
        return head;
    }
    static bool continues(const uint8_t* payload) {
        return !SHARED && (head_bits(payload) >> 33 & 1);
    }
    Event head_event(uint64_t now, uint8_t p, const uint8_t* payload) const {
        const uint64_t head = head_bits(payload);
        return {now,     0, uint16_t(head),         uint16_t(head >> 40 & 0xff),
                number_, p, uint8_t(head >> 32 & 1), SHARED ? uint32_t(head >> 16 & 0xffff) : 0u};
    }
};
