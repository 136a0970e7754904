// Scripts: what one rank's host does on AXI4-Lite, one operation after the other.
#pragma once
#include "harness_backdoor.h"
#include "ports.h"
#include <algorithm>
#include <cstdint>

enum OpKind : uint32_t { OP_WRITE = 0, OP_READ = 1, OP_WAIT = 2, OP_WAIT_IRQ = 3 };

struct HostOp {
    uint32_t kind, address, value;
};

struct HostResult {
    uint64_t begin, end;  // first cycle of the operation, and cycle in which it was over
    uint32_t value;       // what a READ returned
    uint32_t response;    // the AXI response, 0 is OKAY
};

class Script {
public:
    void load(const HostOp* ops, uint64_t num_ops, HostResult* results) {
        ops_ = ops;
        num_ops_ = num_ops;
        results_ = results;
        index_ = 0;
        begun_ = false;
    }
    bool backdoor = false;  // words of tables are stored at once, and take no time
    // The least limit that a watchdog was ever given.
    uint64_t watchdog_cycles = ~0ull;

    // When it next does something, unless an interrupt comes.
    uint64_t next_event(uint64_t now) const {
        if (finished()) return ~0ull;
        if (!begun_ || ops_[index_].kind <= OP_READ) return now;
        if (ops_[index_].kind == OP_WAIT_IRQ) return ~0ull;
        return results_[index_].begin + ops_[index_].value;
    }
    bool finished() const { return index_ == num_ops_; }
    bool in_transfer() const { return begun_ && ops_[index_].kind <= OP_READ; }
    // Whether it accesses the interface in this cycle.
    bool accesses() const { return stored_ || in_transfer(); }

    // Sets the inputs of cycle `now` from outputs of the same cycle, which come from registers.
    // After an AXI transfer the next operation begins a cycle later, waits take no time of theirs.
    void tick(uint64_t now, Vnic& nic) {
        bool transferred = stored_ = false;
        while (index_ < num_ops_ && !transferred) {
            const HostOp& op = ops_[index_];
            if (!begun_) begin(now, op, nic);
            if (!over(now, op, nic)) break;
            results_[index_++].end = now;
            begun_ = false;
            transferred = op.kind <= OP_READ && !directly_;
            stored_ = stored_ || directly_;
        }
        nic.s_axil_awvalid = aw_;
        nic.s_axil_wvalid = w_;
        nic.s_axil_arvalid = ar_;
        // Ready is a register: what is offered while it is high is taken at the next edge.
        aw_ = aw_ && !nic.s_axil_awready;
        w_ = w_ && !nic.s_axil_wready;
        ar_ = ar_ && !nic.s_axil_arready;
    }

private:
    // These are arrays of the caller, which keeps them while the script is loaded (network.py).
    const HostOp* ops_ = nullptr;
    HostResult* results_ = nullptr;
    uint64_t num_ops_ = 0, index_ = 0;
    bool begun_ = false;
    bool directly_ = false, stored_ = false;    // an operation through the backdoor, a cycle with some
    bool aw_ = false, w_ = false, ar_ = false;  // offered and not taken yet

    void begin(uint64_t now, const HostOp& op, Vnic& nic) {
        begun_ = true;
        results_[index_].begin = now;
        directly_ = backdoor && op.kind == OP_WRITE && Backdoor::write(nic, op.address, op.value);
        if (directly_) return;
        nic.s_axil_bready = nic.s_axil_rready = 1;
        if (op.kind == OP_WRITE) {
            const bool of_watchdog =
                op.address == WATCHDOG_ADDRESS || op.address == FIRST_ARRIVAL_ADDRESS;
            // 0 switches it off.
            if (of_watchdog && op.value) watchdog_cycles = std::min<uint64_t>(watchdog_cycles, op.value);
            aw_ = w_ = true;
            nic.s_axil_awaddr = op.address;
            nic.s_axil_wdata = op.value;
            nic.s_axil_wstrb = 0xf;
        } else if (op.kind == OP_READ) {
            ar_ = true;
            nic.s_axil_araddr = op.address;
        }
    }
    bool over(uint64_t now, const HostOp& op, Vnic& nic) {
        HostResult& result = results_[index_];
        if (directly_) return true;
        switch (op.kind) {
        case OP_WRITE:
            result.response = nic.s_axil_bresp;
            return !aw_ && !w_ && nic.s_axil_bvalid;
        case OP_READ:
            result.response = nic.s_axil_rresp;
            result.value = nic.s_axil_rdata;
            return !ar_ && nic.s_axil_rvalid;
        case OP_WAIT: return now - result.begin >= op.value;
        default: return nic.irq;
        }
    }
};
