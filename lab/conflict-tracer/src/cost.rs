//! Costs on a hypothetical machine: parameters of a model, as plain data.
//!
//! Print them beside every figure that depends on them. Sources of the values:
//!
//! - *From cache to cache*: measured by `core-to-core-latency` (N. Viennot) on EPYC 7R13, two
//!   sockets: 23 ns within eight cores that share a cache, 107 ns within a socket, 197 ns across;
//!   Ice Lake and Cascade Lake within a socket 47 to 51, across 108 to 136.
//! - *A locked instruction*: an uncontended `lock add` took 4.5 ns on a quiet virtual machine
//!   (EPYC) and 8.8 ns on a busy one; all kinds cost about the same (Schweizer, Besta, Hoefler,
//!   PACT 2015).
//! - *An instruction*: fitted to single-threaded runs of table lookups on the same machine.
//! - *Memory, a further sharer, a clean copy*: order of magnitude; they matter little beside the
//!   others.
//!
//! These values favour operations that conflict. Figure 7 of the SOSP 2013 paper has `fstat` with
//! one shared line on an older machine with eight sockets: if all cores queued for the line, it
//! took about 275 ns for each turn at 20 cores, and 625 ns at 80.

/// Machine of the model: the layout of CPUs, and the costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// Distances of the CPUs.
    pub topology: Topology,
    /// Durations.
    pub costs: Costs,
}

/// Layout of CPUs: clusters share a cache, sockets share a chip. CPUs are numbered cluster by
/// cluster, socket by socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topology {
    /// CPUs that share a cache, at least 1.
    pub cpus_per_cluster: usize,
    /// CPUs of a socket, at least 1.
    pub cpus_per_socket: usize,
}

/// Durations, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// Any instruction whose lines are in the own cache.
    pub instruction_ns: f64,
    /// Additional time of a locked instruction or a fence.
    pub locked_ns: f64,
    /// A line from a cache of the same cluster.
    pub same_cluster_ns: f64,
    /// A line from another cluster of the socket.
    pub same_socket_ns: f64,
    /// A line from another socket.
    pub other_socket_ns: f64,
    /// A line from memory.
    pub memory_ns: f64,
    /// Each further cache in which a line is invalidated.
    pub further_sharer_ns: f64,
    /// How long a clean line is busy when a cache gets a copy.
    pub clean_copy_ns: f64,
}

impl Machine {
    /// Machine like a server with EPYC CPUs: clusters of 8, sockets of 64.
    pub const CLUSTERS: Self = Self {
        topology: Topology {
            cpus_per_cluster: 8,
            cpus_per_socket: 64,
        },
        costs: Costs::EPYC,
    };

    /// Machine in which all CPUs are equally far from each other.
    pub const FLAT: Self = Self {
        topology: Topology {
            cpus_per_cluster: 1,
            cpus_per_socket: crate::MAX_CPUS,
        },
        costs: Costs::EPYC,
    };

    /// Returns the transfer time of a line between two caches, in nanoseconds.
    ///
    /// ```
    /// use conflict_tracer::Machine;
    ///
    /// let machine = Machine::CLUSTERS;
    /// assert_eq!([1, 8, 64].map(|cpu| machine.latency_ns(0, cpu)), [25.0, 100.0, 200.0]);
    /// ```
    pub fn latency_ns(&self, from: usize, to: usize) -> f64 {
        let apart = |size: usize| from / size.max(1) != to / size.max(1);
        if apart(self.topology.cpus_per_socket) {
            self.costs.other_socket_ns
        } else if apart(self.topology.cpus_per_cluster) {
            self.costs.same_socket_ns
        } else {
            self.costs.same_cluster_ns
        }
    }
}

impl Costs {
    /// Costs like those of EPYC CPUs since 2021.
    pub const EPYC: Self = Self {
        instruction_ns: 0.06,
        locked_ns: 8.5,
        same_cluster_ns: 25.0,
        same_socket_ns: 100.0,
        other_socket_ns: 200.0,
        memory_ns: 100.0,
        further_sharer_ns: 0.5,
        clean_copy_ns: 10.0,
    };
}
