//! Dependency graph: nodes with durations, and edges from what a node waits for.
//!
//! A node is ready when all of its edges are satisfied, and it ends after its duration. Of a node's
//! edges, the last one in the recording is *binding*: its lag is the recorded one. Therefore a
//! replay without changes reproduces all recorded times.

use mlprof_report::ranks::{median, quantile};
use rustc_hash::FxHashSet;

/// Index that means "no slice".
pub(super) const NO_SLICE: u32 = u32::MAX;

/// Meaning of an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EdgeKind {
    /// Order of a thread or stream.
    Order,
    /// Order of a thread, across a gap without slices.
    Gap,
    /// Launch of device work.
    Launch,
    /// Wait of a thread or stream.
    Wait,
    /// Hand-over of a batch, or other wait of a thread for another thread.
    HandOver,
}

/// Edge to a node.
#[derive(Debug, Clone, Copy)]
pub(super) struct Edge {
    pub(super) from: u32,
    pub(super) kind: EdgeKind,
    pub(super) is_binding: bool,
    /// Recorded time from the end of `from` until the node was ready, in nanoseconds.
    pub(super) slack: i64,
}

/// Part of a thread's time, or device work.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    /// Time at which the node began, in nanoseconds.
    pub(super) start: i64,
    /// Time at which everything was there that the node waited for.
    pub(super) ready: i64,
    pub(super) end: i64,
    /// Index of the slice among the slices of all traces.
    pub(super) slice: u32,
    /// Order among nodes that end at the same time.
    pub(super) rank: u8,
}

/// Lag of edges that did not determine a recorded time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lags {
    /// Edges have no lag beyond their usual one.
    Usual,
    /// Launches take no time.
    Least,
    /// Launches take long, and gaps of other threads stay.
    Most,
}

/// Dependency graph in topological order.
#[derive(Debug, Default)]
pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
    /// Index of the first edge of each node, and the number of all edges.
    first: Vec<u32>,
    edges: Vec<Edge>,
    /// Usual and long lag from a launch call to its work.
    launch: (i64, i64),
}

impl Graph {
    pub(super) fn edges(&self, node: usize) -> &[Edge] {
        &self.edges[self.first[node] as usize..self.first[node + 1] as usize]
    }

    pub(super) fn lag(&self, edge: &Edge, lags: Lags) -> i64 {
        match (edge.kind, lags) {
            _ if edge.is_binding => edge.slack,
            (EdgeKind::Launch, Lags::Usual) => edge.slack.min(self.launch.0),
            (EdgeKind::Launch, Lags::Most) => edge.slack.min(self.launch.1),
            (EdgeKind::Gap, Lags::Most) => edge.slack,
            _ => edge.slack.min(0),
        }
    }
}

/// Graph under construction.
#[derive(Debug, Default)]
pub(super) struct Builder {
    pub(super) nodes: Vec<Node>,
    /// Target, source and kind of each edge.
    edges: Vec<(u32, u32, EdgeKind)>,
}

impl Builder {
    /// Adds a node and returns its index.
    pub(super) fn node(&mut self, node: Node) -> u32 {
        self.nodes.push(node);
        self.nodes.len() as u32 - 1 // there are fewer than 2^32
    }

    pub(super) fn edge(&mut self, to: u32, from: u32, kind: EdgeKind) {
        self.edges.push((to, from, kind));
    }

    /// Makes a node wait until the source node has ended.
    pub(super) fn wait(&mut self, to: u32, from: u32, kind: EdgeKind) {
        let since = self.nodes[from as usize].end;
        let node = &mut self.nodes[to as usize];
        if since > node.end {
            return;
        }
        node.rank = node.rank.max(1);
        node.ready = node.ready.max(since);
        self.edge(to, from, kind);
    }

    /// Returns the nodes that received something from another thread.
    pub(super) fn handed_over(&self) -> FxHashSet<u32> {
        let edges = self.edges.iter().filter(|(.., kind)| *kind == EdgeKind::HandOver);
        edges.map(|(to, ..)| *to).collect()
    }

    /// Orders the nodes, and returns the graph and the new index of each node.
    pub(super) fn finish(self) -> (Graph, Vec<u32>) {
        let Self { nodes, mut edges } = self;
        let mut order: Vec<u32> = (0..nodes.len() as u32).collect();
        order.sort_unstable_by_key(|node| {
            let Node { end, rank, start, .. } = nodes[*node as usize];
            (end, rank, start, *node)
        });
        let mut place = vec![0_u32; nodes.len()];
        for (new, old) in (0_u32..).zip(&order) {
            place[*old as usize] = new;
        }
        for (to, from, _) in &mut edges {
            (*to, *from) = (place[*to as usize], place[*from as usize]);
        }
        // An edge against the order comes from inconsistent clocks.
        edges.retain(|(to, from, _)| from < to);
        let mut graph = Graph {
            nodes: order.iter().map(|old| nodes[*old as usize]).collect(),
            first: vec![0; nodes.len() + 1],
            ..Graph::default()
        };
        for (to, ..) in &edges {
            graph.first[*to as usize + 1] += 1;
        }
        for node in 0..nodes.len() {
            graph.first[node + 1] += graph.first[node];
        }
        let mut next = graph.first.clone();
        let none = Edge { from: 0, kind: EdgeKind::Order, is_binding: false, slack: 0 };
        graph.edges = vec![none; edges.len()];
        for (to, from, kind) in edges {
            let edge = &mut next[to as usize];
            graph.edges[*edge as usize] = Edge { from, kind, is_binding: false, slack: 0 };
            *edge += 1;
        }
        graph.bind();
        (graph, place)
    }
}

impl Graph {
    /// Computes the slack of all edges and finds the binding ones.
    fn bind(&mut self) {
        let mut delays = Vec::new();
        for node in 0..self.nodes.len() {
            let edges = self.first[node] as usize..self.first[node + 1] as usize;
            let is_wait = |edge: &Edge| matches!(edge.kind, EdgeKind::Wait | EdgeKind::HandOver);
            let waits = self.edges[edges.clone()].iter().any(is_wait);
            if !waits {
                // A wait against the order was removed.
                self.nodes[node].ready = self.nodes[node].start;
            }
            let ready = self.nodes[node].ready;
            for edge in &mut self.edges[edges.clone()] {
                edge.slack = ready - self.nodes[edge.from as usize].end;
            }
            let last = self.edges[edges].iter().min_by_key(|edge| edge.slack);
            let launch = last.filter(|edge| edge.kind == EdgeKind::Launch);
            delays.extend(launch.map(|edge| edge.slack));
        }
        self.launch = (median(delays.clone()), quantile(delays, 0.9));
        // A launch needs its usual lag, so it can be binding although another edge's source ended
        // later.
        let usual = self.launch.0;
        let beyond_usual = |edge: &Edge| {
            edge.slack - if edge.kind == EdgeKind::Launch { edge.slack.min(usual) } else { 0 }
        };
        for node in 0..self.nodes.len() {
            let edges = self.first[node] as usize..self.first[node + 1] as usize;
            let last = self.edges[edges].iter_mut().min_by_key(|edge| beyond_usual(edge));
            last.into_iter().for_each(|edge| edge.is_binding = true);
        }
    }
}
