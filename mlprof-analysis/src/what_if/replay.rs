//! Replay of a dependency graph with changed durations.

use super::graph::{Edge, EdgeKind, Graph, Lags, NO_SLICE, Node};

/// Changed durations.
#[derive(Debug, Clone, Default)]
pub(super) struct Factors {
    /// Factor of each slice's own time. Empty if nothing changes.
    pub(super) of_slices: Vec<f64>,
    /// `true` if slices with the factor 0 wait for no other thread.
    pub(super) without_hand_over: bool,
}

impl Factors {
    fn of(&self, node: &Node) -> f64 {
        match node.slice {
            NO_SLICE => 1.0,
            slice => self.of_slices.get(slice as usize).copied().unwrap_or(1.0),
        }
    }

    fn duration(&self, node: &Node) -> i64 {
        let duration = node.end - node.ready;
        match self.of(node) {
            1.0 => duration,
            factor => (duration as f64 * factor).round() as i64,
        }
    }

    fn is_satisfied(&self, node: &Node, edge: &Edge) -> bool {
        self.without_hand_over && edge.kind == EdgeKind::HandOver && self.of(node) == 0.0
    }
}

/// Returns the predicted end of each node in nanoseconds.
pub(super) fn replay(graph: &Graph, factors: &Factors, lags: Lags) -> Vec<i64> {
    let mut ends: Vec<i64> = Vec::with_capacity(graph.nodes.len());
    for (place, node) in graph.nodes.iter().enumerate() {
        let edges = graph.edges(place).iter().filter(|edge| !factors.is_satisfied(node, edge));
        let ready = edges.map(|edge| ends[edge.from as usize] + graph.lag(edge, lags)).max();
        ends.push(ready.unwrap_or(node.ready) + factors.duration(node));
    }
    ends
}

/// Walks the recorded critical path from a node back to a time. Calls `each` with each node on it.
pub(super) fn walk(graph: &Graph, from: usize, until: i64, mut each: impl FnMut(&Node)) {
    let mut place = from;
    loop {
        let node = &graph.nodes[place];
        if node.end <= until {
            return;
        }
        each(node);
        let Some(binding) = graph.edges(place).iter().find(|edge| edge.is_binding) else { return };
        place = binding.from as usize;
    }
}
