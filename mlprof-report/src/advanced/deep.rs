//! Call trees of unlimited depth: JSON serialization, comparison, cloning and dropping without
//! recursion.
//!
//! JSON parsers limit the nesting depth: serde_json to 128 levels, Python to about 1,000. Therefore
//! `roots` holds a tree down to [`NESTED`] levels. `deeper` lists the subtrees below that limit,
//! each again cut at [`NESTED`] levels.

use std::cell::RefCell;
use std::collections::VecDeque;

#[cfg(feature = "read")]
use serde::de::Error;
use serde::ser::{SerializeSeq, SerializeStruct};
#[cfg(feature = "read")]
use serde::{Deserialize, Deserializer};
use serde::{Serialize, Serializer};

use super::{CallTreeNode, ThreadCallTree};

/// Maximum number of node levels that are nested in each other in JSON. Each node is an object
/// inside an array, so it adds two levels of JSON nesting.
const NESTED: usize = 50;

/// Children that are not nested below their parent in the JSON. The parent is identified by its
/// index. Nodes are indexed from 0 in the order in which they appear in the JSON.
struct Deeper<'tree> {
    parent: usize,
    children: &'tree [CallTreeNode],
}

/// State of a serialization: the number of nodes written, and the subtrees not yet written.
#[derive(Default)]
struct Written<'tree> {
    nodes: usize,
    left: VecDeque<Deeper<'tree>>,
}

/// Sibling nodes and their descendants, down to the last level that may be nested.
struct Level<'tree, 'written> {
    nodes: &'tree [CallTreeNode],
    levels_left: usize,
    written: &'written RefCell<Written<'tree>>,
}

impl Serialize for Level<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut sequence = serializer.serialize_seq(Some(self.nodes.len()))?;
        for node in self.nodes {
            let levels_left = self.levels_left.saturating_sub(1);
            sequence.serialize_element(&Nested { node, levels_left, written: self.written })?;
        }
        sequence.end()
    }
}

struct Nested<'tree, 'written> {
    node: &'tree CallTreeNode,
    levels_left: usize,
    written: &'written RefCell<Written<'tree>>,
}

impl Serialize for Nested<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { node, levels_left, written } = *self;
        let mut nodes: &[CallTreeNode] = &node.children;
        {
            let mut written = written.borrow_mut();
            let number = written.nodes;
            written.nodes += 1;
            if levels_left == 0 && !nodes.is_empty() {
                written.left.push_back(Deeper { parent: number, children: nodes });
                nodes = &[];
            }
        }
        let mut fields = serializer.serialize_struct("CallTreeNode", 4)?;
        fields.serialize_field("function", &node.function)?;
        fields.serialize_field("kind", &node.kind)?;
        fields.serialize_field("calls", &node.calls)?;
        fields.serialize_field("children", &Level { nodes, levels_left, written })?;
        fields.end()
    }
}

/// Serializes the remaining subtrees one after the other until the queue is empty.
struct AllDeeper<'tree, 'written>(&'written RefCell<Written<'tree>>);

impl Serialize for AllDeeper<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Entry<'tree, 'written> {
            parent: usize,
            children: Level<'tree, 'written>,
        }
        let next = || self.0.borrow_mut().left.pop_front();
        let mut sequence = serializer.serialize_seq(None)?;
        while let Some(Deeper { parent, children: nodes }) = next() {
            let children = Level { nodes, levels_left: NESTED, written: self.0 };
            sequence.serialize_element(&Entry { parent, children })?;
        }
        sequence.end()
    }
}

impl Serialize for ThreadCallTree {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let written = RefCell::default();
        let roots = Level { nodes: &self.roots, levels_left: NESTED, written: &written };
        let mut fields = serializer.serialize_struct("ThreadCallTree", 4)?;
        fields.serialize_field("thread", &self.thread)?;
        fields.serialize_field("threads", &self.threads)?;
        fields.serialize_field("roots", &roots)?;
        fields.serialize_field("deeper", &AllDeeper(&written))?;
        fields.end()
    }
}

#[cfg(feature = "read")]
impl<'de> Deserialize<'de> for ThreadCallTree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Entry {
            parent: usize,
            children: Vec<CallTreeNode>,
        }
        #[derive(Deserialize)]
        struct Read {
            thread: String,
            threads: u64,
            roots: Vec<CallTreeNode>,
            #[serde(default)]
            deeper: Vec<Entry>,
        }
        let Read { thread, threads, roots, deeper } = Read::deserialize(deserializer)?;
        // Parts of the tree, each with the index of its first node.
        let mut parts = vec![(0, roots)];
        let mut next = count(&parts[0].1);
        // For each part, the subtrees to attach: the parent's position inside the part, and the
        // index of the child part.
        let mut below: Vec<Vec<(usize, usize)>> = vec![Vec::new()];
        for Entry { parent, children } in deeper {
            if parent >= next {
                return Err(D::Error::custom(format!(
                    "the node {parent} is missing before its children"
                )));
            }
            let around = parts.partition_point(|(first, _)| *first <= parent) - 1;
            below[around].push((parent - parts[around].0, parts.len()));
            below.push(Vec::new());
            let first = next;
            next += count(&children);
            parts.push((first, children));
        }
        // The loop runs from the last part to the first, so each part is complete when it is
        // attached.
        for around in (0..parts.len()).rev() {
            let mut inside = std::mem::take(&mut below[around]);
            inside.sort_unstable();
            let (until, after) = parts.split_at_mut(around + 1);
            let part = |index: usize| std::mem::take(&mut after[index - around - 1].1);
            if let Err(error) = attach(&mut until[around].1, inside, part) {
                // This value's `Drop` implementation frees the parts without recursion.
                let roots = parts.into_iter().flat_map(|(_, nodes)| nodes).collect();
                drop(Self { thread, threads, roots });
                return Err(D::Error::custom(error));
            }
        }
        let roots = std::mem::take(&mut parts[0].1);
        Ok(Self { thread, threads, roots })
    }
}

fn count(nodes: &[CallTreeNode]) -> usize {
    PreOrder { open: vec![nodes.iter()] }.count()
}

/// Attaches children to the nodes at the given positions, which are in ascending order.
fn attach(
    nodes: &mut [CallTreeNode],
    inside: Vec<(usize, usize)>,
    mut part: impl FnMut(usize) -> Vec<CallTreeNode>,
) -> Result<(), &'static str> {
    let mut inside = inside.into_iter().peekable();
    let mut open = vec![nodes.iter_mut()];
    let mut place = 0;
    while let Some(level) = open.last_mut().filter(|_| inside.peek().is_some()) {
        let Some(node) = level.next() else {
            open.pop();
            continue;
        };
        match inside.next_if(|(wanted, _)| *wanted == place) {
            Some(_) if !node.children.is_empty() => return Err("a node lists its children twice"),
            Some((_, index)) => node.children = part(index),
            None => open.push(node.children.iter_mut()),
        }
        place += 1;
    }
    match inside.next() {
        Some(_) => Err("a node lists its children twice"),
        None => Ok(()),
    }
}

/// Pre-order iterator: each node comes before its descendants.
struct PreOrder<'tree> {
    open: Vec<std::slice::Iter<'tree, CallTreeNode>>,
}

impl<'tree> Iterator for PreOrder<'tree> {
    /// Depth of the node (0 for a root), and the node.
    type Item = (usize, &'tree CallTreeNode);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.open.last_mut()?.next() {
                Some(node) => {
                    self.open.push(node.children.iter());
                    return Some((self.open.len() - 2, node));
                }
                None => drop(self.open.pop()),
            }
        }
    }
}

impl ThreadCallTree {
    /// Returns all nodes in pre-order, each with its depth (0 for a root). Use it where recursion
    /// could overflow the stack. A tree is as deep as its calls of different functions are nested.
    #[doc(hidden)]
    pub fn nodes(&self) -> impl Iterator<Item = (usize, &CallTreeNode)> {
        PreOrder { open: vec![self.roots.iter()] }
    }
}

impl PartialEq for ThreadCallTree {
    fn eq(&self, other: &Self) -> bool {
        // The pre-order sequence and each node's number of children determine the shape of a tree.
        let is_same = |one: &CallTreeNode, other: &CallTreeNode| {
            one.function == other.function
                && one.kind == other.kind
                && one.calls == other.calls
                && one.children.len() == other.children.len()
        };
        let (mut ours, mut theirs) = (self.nodes(), other.nodes());
        self.thread == other.thread
            && self.threads == other.threads
            && self.roots.len() == other.roots.len()
            && ours.by_ref().zip(theirs.by_ref()).all(|((_, one), (_, other))| is_same(one, other))
            && ours.next().is_none()
            && theirs.next().is_none()
    }
}

impl Clone for ThreadCallTree {
    fn clone(&self) -> Self {
        let nodes: Vec<&CallTreeNode> = self.nodes().map(|(_, node)| node).collect();
        // The loop visits nodes in reverse pre-order, so the last nodes in `made` are the children
        // of the next node.
        let mut made: Vec<CallTreeNode> = Vec::new();
        let take = |count: usize, made: &mut Vec<CallTreeNode>| {
            (0..count).filter_map(|_| made.pop()).collect::<Vec<_>>()
        };
        for node in nodes.into_iter().rev() {
            let children = take(node.children.len(), &mut made);
            let CallTreeNode { function, kind, calls, .. } = node;
            made.push(CallTreeNode {
                function: function.clone(),
                kind: *kind,
                calls: *calls,
                children,
            });
        }
        let roots = take(self.roots.len(), &mut made);
        Self { thread: self.thread.clone(), threads: self.threads, roots }
    }
}

impl Drop for ThreadCallTree {
    fn drop(&mut self) {
        let mut open = std::mem::take(&mut self.roots);
        while let Some(mut node) = open.pop() {
            open.append(&mut node.children);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::advanced::{CallStatistics, FunctionKey};
    use mlprof_events::ActionKind;

    fn node(name: usize, children: Vec<CallTreeNode>) -> CallTreeNode {
        let function = FunctionKey { file: "a.rs".into(), line: 1, name: format!("f{name}") };
        let calls = CallStatistics { total_calls: name as u64, ..CallStatistics::default() };
        CallTreeNode { function, kind: ActionKind::Function, calls, children }
    }

    /// Builds a chain of `depth` levels. Each level has a leaf on both sides of its inner node.
    fn tree(depth: usize) -> ThreadCallTree {
        let mut below = Vec::new();
        for level in (0..depth).rev() {
            below = vec![node(3 * level, vec![]), node(3 * level + 1, below), node(7, vec![])];
        }
        ThreadCallTree { thread: "main".into(), threads: 1, roots: below }
    }

    #[test]
    fn trees_of_every_depth_are_read_back() {
        for depth in [0, 1, 2, 49, 50, 51, 60, 61, 99, 100, 101, 10_000, 70_000] {
            let tree = tree(depth);
            assert_eq!(tree.nodes().count(), 3 * depth);
            assert_eq!(
                tree.nodes().map(|(around, _)| around + 1).max(),
                (depth > 0).then_some(depth)
            );
            let json = serde_json::to_string(&tree).expect("plain data");
            let back: ThreadCallTree = serde_json::from_str(&json).expect("what was written");
            assert!(back == tree, "depth {depth}");
            assert!(back.clone() == tree, "depth {depth}");
        }
        assert!(tree(70) != tree(71) && tree(0) != tree(1));
    }

    #[test]
    fn no_reader_has_to_go_deeper_than_128_levels() {
        let json = serde_json::to_string(&tree(1_000)).expect("plain data");
        let (mut depth, mut deepest) = (0, 0);
        for byte in json.bytes() {
            match byte {
                b'[' | b'{' => depth += 1,
                b']' | b'}' => depth -= 1,
                _ => {}
            }
            deepest = deepest.max(depth);
        }
        assert!((100..120).contains(&deepest), "{deepest}");
    }

    #[test]
    fn a_tree_of_before_is_read_and_nonsense_is_an_error() {
        let value = serde_json::to_value(tree(2)).expect("plain data");
        let read = |change: fn(&mut serde_json::Value)| {
            let mut changed = value.clone();
            change(&mut changed);
            serde_json::from_value::<ThreadCallTree>(changed)
        };
        assert!(read(|value| drop(value["deeper"].take())).is_err(), "null is not a list");
        let before = read(|value| {
            value.as_object_mut().and_then(|fields| fields.remove("deeper"));
        });
        assert!(before.expect("a tree of before") == tree(2));
        let nowhere = r#"[{"parent": 6, "children": []}]"#;
        let twice = r#"[{"parent": 1, "children": []}]"#;
        for deeper in [nowhere, twice] {
            let mut changed = value.clone();
            changed["deeper"] = serde_json::from_str(deeper).expect("JSON");
            assert!(serde_json::from_value::<ThreadCallTree>(changed).is_err(), "{deeper}");
        }
    }
}
