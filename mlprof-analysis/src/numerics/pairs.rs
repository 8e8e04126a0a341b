//! Pairing of the tensors of two records.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

use mlprof_events::TensorRole;
use mlprof_report::numerics::RecordedTensor;
use similar::{Algorithm, DiffOp, capture_diff_slices};

use super::{NumericsRecord, path};

/// Two tensors at one place in one step.
pub(super) struct Pair<'records> {
    pub(super) before: &'records RecordedTensor,
    pub(super) after: &'records RecordedTensor,
}

impl Pair<'_> {
    /// Returns the shapes of both sides.
    pub(super) fn shapes(&self) -> [Vec<u64>; 2] {
        [self.before.shape.clone(), self.after.shape.clone()]
    }
}

/// Numbers of tensors without a partner.
#[derive(Default)]
pub(super) struct Only {
    pub(super) before: u64,
    pub(super) after: u64,
}

/// Names in the first record for places of the second record.
type Names = HashMap<String, String>;
type Place<'records> = (TensorRole, Cow<'records, str>);
type Placed<'records> = (Place<'records>, &'records RecordedTensor);

/// Returns the pairs in order of steps, and the numbers of tensors without a partner.
pub(super) fn pairs<'records>(
    before: &'records NumericsRecord,
    after: &'records NumericsRecord,
    names: &Names,
) -> (Vec<Pair<'records>>, Only) {
    let (mut found, mut only) = (Vec::new(), Only::default());
    let none = Names::new();
    let others = by_step(after, names);
    for (step, before) in by_step(before, &none) {
        let Some(after) = others.get(&step) else { continue };
        let together = aligned(&before, after);
        only.before += (before.len() - together.len()) as u64;
        only.after += (after.len() - together.len()) as u64;
        found.extend(together);
    }
    (found, only)
}

/// Returns the pairs of one step in order.
fn aligned<'records>(
    before: &[Placed<'records>],
    after: &[Placed<'records>],
) -> Vec<Pair<'records>> {
    let (own, others) = (Places::of(before), Places::of(after));
    let pair = |old: usize, new: usize| (old, Pair { before: before[old].1, after: after[new].1 });
    // A place that occurs once on both sides is paired regardless of its position, because
    // frameworks order parameters differently.
    let once = before.iter().enumerate().filter_map(|(old, (place, _))| {
        own.only(place)?;
        Some(pair(old, others.only(place)?))
    });
    let mut together: Vec<(usize, Pair<'records>)> = once.collect();
    // A place that occurs on one side only cannot have a partner. Removing it keeps the alignment
    // cheap for models with different names.
    let is_in_order = |place: &Place<'records>| {
        let is_once = own.only(place).is_some() && others.only(place).is_some();
        !is_once && own.has(place) && others.has(place)
    };
    let in_order = |side: &[Placed<'records>]| -> (Vec<usize>, Vec<Place<'records>>) {
        let kept = side.iter().enumerate().filter(|(_, (place, _))| is_in_order(place));
        kept.map(|(number, (place, _))| (number, place.clone())).unzip()
    };
    let ((old, old_places), (new, new_places)) = (in_order(before), in_order(after));
    for same in capture_diff_slices(Algorithm::Myers, &old_places, &new_places) {
        let DiffOp::Equal { old_index, new_index, len } = same else { continue };
        let both = old[old_index..][..len].iter().zip(&new[new_index..][..len]);
        together.extend(both.map(|(old, new)| pair(*old, *new)));
    }
    together.sort_by_key(|(old, _)| *old);
    together.into_iter().map(|(_, pair)| pair).collect()
}

/// Index of each place in a step. `None` if the place occurs several times.
struct Places<'side, 'records>(HashMap<&'side Place<'records>, Option<usize>>);

impl<'side, 'records> Places<'side, 'records> {
    fn of(side: &'side [Placed<'records>]) -> Self {
        let mut places = HashMap::new();
        for (number, (place, _)) in side.iter().enumerate() {
            places.entry(place).and_modify(|known| *known = None).or_insert(Some(number));
        }
        Self(places)
    }

    fn only(&self, place: &Place<'records>) -> Option<usize> {
        self.0.get(place).copied().flatten()
    }

    fn has(&self, place: &Place<'records>) -> bool {
        self.0.contains_key(place)
    }
}

fn by_step<'records>(
    record: &'records NumericsRecord,
    names: &Names,
) -> BTreeMap<u64, Vec<Placed<'records>>> {
    let mut steps: BTreeMap<u64, Vec<Placed<'records>>> = BTreeMap::new();
    for tensor in &record.tensors {
        let place = (tensor.role, renamed(&tensor.name, names));
        steps.entry(tensor.step).or_default().push((place, tensor));
    }
    steps
}

/// Translates a place of the second record to its path in the first record.
fn renamed<'record>(name: &'record str, names: &Names) -> Cow<'record, str> {
    let own = path(name);
    if let Some(known) = names.get(own).or_else(|| names.get(name)) {
        return path(known).to_owned().into();
    }
    match beginning(own, names) {
        Some(beginning) => format!("{}{}", names[beginning], &own[beginning.len()..]).into(),
        None => own.into(),
    }
}

/// Returns the longest prefix of a path, up to a dot, that has a translation.
fn beginning<'path>(own: &'path str, names: &Names) -> Option<&'path str> {
    own.rmatch_indices('.').map(|(dot, _)| &own[..dot]).find(|part| names.contains_key(*part))
}

/// Returns the translated names that match no place of the record.
pub(super) fn unused(names: &Names, record: &NumericsRecord) -> Vec<String> {
    let mut used = HashSet::new();
    for tensor in &record.tensors {
        let own = path(&tensor.name);
        let whole = [own, tensor.name.as_str()].into_iter().find(|name| names.contains_key(*name));
        used.extend(whole.or_else(|| beginning(own, names)));
    }
    let mut unused: Vec<_> =
        names.keys().filter(|name| !used.contains(name.as_str())).cloned().collect();
    unused.sort();
    unused
}
