//! An event as it stands in a file. What is not needed is skipped.

use serde_json::value::RawValue;

use super::fields::tolerant_struct;
use super::values::{Integer, Place, Text};
use crate::trace::Message;

tolerant_struct! {
    /// An event.
    pub(super) struct Event<'a> {
        ph: Text<'a> = "ph",
        cat: Text<'a> = "cat",
        name: Text<'a> = "name",
        pid: Place = "pid",
        tid: Place = "tid",
        /// In microseconds, as all times.
        ts: Option<&'a RawValue> = "ts",
        dur: Option<&'a RawValue> = "dur",
        id: Integer = "id" | "bind_id",
        /// Id of an asynchronous slice, global or of its process.
        scoped_id: Option<&'a RawValue> = "id2",
        args: Option<&'a RawValue> = "args",
    }
}

tolerant_struct! {
    /// Arguments of slices.
    pub(super) struct SliceArguments<'a> {
        /// Also in the words of XProf and of Ascend.
        correlation: Integer = "correlation" | "correlation_id" | "connection_id",
        sequence: Integer = "Sequence number",
        bytes: Integer = "bytes" | "Bytes",
        flops: Integer = "flops",
        stream: Integer = "stream",
        /// Of waits for an event.
        wait_on_stream: Integer = "wait_on_stream",
        recorded_by: Integer = "wait_on_cuda_event_record_corr_id",
        shapes: Option<&'a RawValue> = "Input Dims" | "Input dims",
        /// Where ranks meet.
        collective: Text<'a> = "Collective name",
        collective_number: Integer = "Seq",
        dtype: Option<&'a RawValue> = "dtype",
        in_elements: Integer = "In msg nelems",
        out_elements: Integer = "Out msg nelems",
        group_size: Integer = "Group size",
        group: Option<&'a RawValue> = "Process Group Name",
        ranks: Option<&'a RawValue> = "Process Group Ranks",
        called_from: Text<'a> = "Called from",
        /// Of kernels.
        grid: Option<&'a RawValue> = "grid",
        block: Option<&'a RawValue> = "block",
        registers: Integer = "registers per thread",
        shared_memory: Integer = "shared memory",
        occupancy: Integer = "est. achieved occupancy %",
        /// Number of a training step, in the words of XProf.
        step: Integer = "step_num",
    }
}

impl SliceArguments<'_> {
    /// The message of a collective, as [`Details::message`](crate::trace::Details::message); `None`
    /// where neither its size nor its group is known.
    pub(super) fn message(&self) -> Option<String> {
        let collective = Some(&*self.collective).filter(|name| !name.is_empty())?;
        let (sent, received) = (self.in_elements.natural(), self.out_elements.natural());
        let text = |value: Option<&RawValue>| {
            value.map_or("", |value| value.get().trim_matches('"')).to_owned()
        };
        let message = Message {
            collective: collective.to_owned(),
            dtype: text(self.dtype),
            in_elements: sent,
            out_elements: received,
            group_size: self.group_size.natural(),
            group: text(self.group),
            ranks: text(self.ranks),
        };
        let is_known = sent > 0
            || received > 0
            || message.group_size > 0
            || !message.group.is_empty()
            || !message.ranks.is_empty();
        is_known.then(|| message.json())
    }

    /// As [`Details::launch`](crate::trace::Details::launch); `None` for what is no kernel.
    pub(super) fn launch(&self) -> Option<String> {
        let sizes = |list: &RawValue| -> String {
            list.get().chars().filter(|letter| letter.is_ascii_digit() || *letter == ',').collect()
        };
        let (grid, block) = (sizes(self.grid?), sizes(self.block?));
        let (registers, shared) = (self.registers.natural(), self.shared_memory.natural());
        let occupancy = self.occupancy.natural();
        Some(format!(
            "regs:{registers} static_shared:0 dynamic_shared:{shared} grid:{grid} block:{block} \
             occ_pct:{occupancy}"
        ))
    }
}

tolerant_struct! {
    /// Arguments of instants of memory.
    pub(super) struct MemoryArguments<'a> {
        address: Option<&'a RawValue> = "Addr",
        bytes: Integer = "Bytes",
        allocated: Integer = "Total Allocated",
        reserved: Integer = "Total Reserved",
        /// 0: the host.
        device_type: Integer = "Device Type",
        device: Integer = "Device Id",
    }
}

tolerant_struct! {
    /// Arguments of what names processes and threads.
    pub(super) struct NameArguments<'a> {
        name: Text<'a> = "name",
        labels: Text<'a> = "labels",
        sort_index: Integer = "sort_index",
    }
}
