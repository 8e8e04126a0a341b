//! The modules of a model as a tree, with what each of them cost.

use std::collections::HashMap;

use super::Profile;
use super::averages::Costs;
use super::modules::{Module, ModuleId};
use crate::ActionKind;
use crate::clock::Rate;
use crate::report::tensor::{ModuleCost, ModuleStatistics};
use crate::tensor::Phase;

/// What one module cost itself.
#[derive(Clone, Copy)]
struct Tally {
    calls: u64,
    first_started: u64,
    cost: ModuleCost,
}

impl Profile {
    /// The modules in the order in which they first ran, below each other as their paths say.
    pub(crate) fn modules(&self) -> Vec<ModuleStatistics> {
        let tallies = self.tallies();
        let mut order: Vec<(ModuleId, &Module)> = self.tree.modules.iter().collect();
        // Roots first: what is below them must find them.
        order.sort_by_key(|(id, module)| {
            (!module.path.is_empty(), tallies.get(id).map_or(u64::MAX, |tally| tally.first_started))
        });
        let mut forest = Vec::new();
        let mut roots: HashMap<ModuleId, usize> = HashMap::new();
        for (id, module) in order {
            let tally = tallies.get(&id);
            if module.path.is_empty() {
                roots.insert(id, forest.len());
                let root = branch(module.type_name, "");
                forest.push(ModuleStatistics { type_name: module.type_name.to_owned(), ..root });
                fill(forest.last_mut(), module, tally);
                continue;
            }
            let root = module.root.and_then(|root| roots.get(&root));
            let top = match root {
                Some(index) => &mut forest[*index].children,
                None => &mut forest,
            };
            fill(place(top, module.path), module, tally);
        }
        forest.iter_mut().for_each(sum_up);
        forest
    }

    fn tallies(&self) -> HashMap<ModuleId, Tally> {
        let (costs, rate) = (Costs::new(self), Rate::now());
        let mut tallies = HashMap::new();
        for (id, node) in self.tree.nodes.iter().enumerate() {
            let Some(module) = node.module else { continue };
            let tally = tallies.entry(module).or_insert(Tally {
                calls: 0,
                first_started: u64::MAX,
                cost: ModuleCost::default(),
            });
            if node.kind == ActionKind::Module {
                tally.calls += node.calls.count;
                tally.first_started = tally.first_started.min(node.calls.first_started);
            }
            tally.cost += cost_of(self, &costs, id, rate);
        }
        tallies
    }
}

/// What one path cost itself.
fn cost_of(profile: &Profile, costs: &Costs, id: usize, rate: Rate) -> ModuleCost {
    let node = &profile.tree.nodes[id];
    let mut cost = ModuleCost::default();
    for bytes in costs.own_memory.values().map(|all| all[id]) {
        cost.memory_bytes = cost
            .memory_bytes
            .saturating_add_unsigned(bytes.allocated)
            .saturating_sub_unsigned(bytes.freed);
        if costs.phases[id] != Phase::Backward {
            cost.allocated_bytes += bytes.allocated;
        }
    }
    let is_on_device = node.kind == ActionKind::Kernel;
    let own = u64::try_from(node.calls.own).unwrap_or(0);
    let host = if is_on_device { 0.0 } else { rate.seconds(own) };
    let device = if is_on_device { rate.seconds(node.calls.total) } else { 0.0 };
    if costs.phases[id] == Phase::Backward {
        cost.backward_seconds = host;
        cost.backward_device_seconds = device;
        cost.backward_flops = costs.flops[id];
    } else {
        cost.forward_seconds = host;
        cost.forward_device_seconds = device;
        cost.forward_flops = costs.flops[id];
    }
    cost
}

/// A module of which nothing is known yet.
fn branch(name: &str, path: &str) -> ModuleStatistics {
    ModuleStatistics {
        name: name.to_owned(),
        path: path.to_owned(),
        type_name: String::new(),
        calls: 0,
        total: ModuleCost::default(),
        own: ModuleCost::default(),
        children: Vec::new(),
    }
}

/// The place of a path below `top`, made if it is not there.
fn place<'tree>(
    mut top: &'tree mut Vec<ModuleStatistics>,
    path: &str,
) -> Option<&'tree mut ModuleStatistics> {
    let mut ends = path.match_indices('.').map(|(dot, _)| dot).chain([path.len()]).peekable();
    let mut start = 0;
    while let Some(end) = ends.next() {
        let name = &path[start..end];
        start = end + 1;
        let known = top.iter().position(|module| !module.path.is_empty() && module.name == name);
        let index = known.unwrap_or_else(|| {
            top.push(branch(name, &path[..end]));
            top.len() - 1
        });
        let module = top.get_mut(index)?;
        if ends.peek().is_none() {
            return Some(module);
        }
        top = &mut module.children;
    }
    None
}

fn fill(place: Option<&mut ModuleStatistics>, module: &Module, tally: Option<&Tally>) {
    let (Some(place), Some(tally)) = (place, tally) else { return };
    if place.type_name.is_empty() {
        place.type_name = module.type_name.to_owned();
    }
    place.calls += tally.calls;
    place.own += tally.cost;
}

fn sum_up(module: &mut ModuleStatistics) {
    module.total = module.own;
    for child in &mut module.children {
        sum_up(child);
        module.total += child.total;
    }
}
