//! Tests of the table as an Arrow record batch.

use mlprof_core::hook::{DType, TensorShape};
use mlprof_core::report::arrow_array::cast::AsArray;
use mlprof_core::report::arrow_array::types::{Float64Type, Int64Type, UInt64Type};
use mlprof_core::report::tensor::{KeyAverages, KeyAveragesParts, RestDurations};
use mlprof_core::tensor::Phase;

use crate::rows::row;

#[test]
fn every_row_is_in_the_batch() {
    let mut first = row("aten::mm");
    first.calls = 3;
    first.cpu_seconds = 0.5;
    first.first_seconds = 0.1;
    first.flops = 10;
    first.moved_bytes = Some(40);
    first.self_cpu_memory_bytes = -7;
    first.rest =
        Some(RestDurations { min_seconds: 0.1, max_seconds: 0.2, deviation_seconds: None });
    first.input_shapes = Some(vec![TensorShape::Tensor(DType::Float32, vec![2, 3])]);
    first.stack = vec!["inner".into(), "outer".into()];
    first.phase = Some(Phase::Backward);
    let averages =
        KeyAveragesParts { rows: vec![first, row("aten::add")], ..KeyAverages::default().into() }
            .build();
    let batch = averages.to_record_batch().expect("a batch");
    assert_eq!(batch.num_rows(), 2);
    let column = |name: &str| batch.column_by_name(name).unwrap_or_else(|| panic!("no {name}"));
    let names: Vec<_> = column("name").as_string::<i32>().iter().flatten().collect();
    assert_eq!(names, ["aten::mm", "aten::add"]);
    assert_eq!(column("calls").as_primitive::<UInt64Type>().values(), &[3, 0]);
    assert_eq!(column("cpu_seconds").as_primitive::<Float64Type>().values(), &[0.5, 0.0]);
    assert_eq!(column("self_cpu_memory_bytes").as_primitive::<Int64Type>().values(), &[-7, 0]);
    let optional =
        |name: &str| -> Vec<_> { column(name).as_primitive::<Float64Type>().iter().collect() };
    assert_eq!(optional("rest_max_seconds"), [Some(0.2), None]);
    // The rest is 0.5 s minus 0.1 s for the first call, divided by two calls.
    assert_eq!(optional("rest_mean_seconds"), [Some(0.2), None]);
    assert_eq!(optional("flops_per_second"), [Some(20.0), None]);
    let bytes: Vec<_> = column("moved_bytes").as_primitive::<UInt64Type>().iter().collect();
    assert_eq!(bytes, [Some(40), None]);
    assert_eq!(optional("bytes_per_second"), [Some(80.0), None]);
    assert_eq!(optional("flops_per_byte"), [Some(0.25), None]);
    let texts = |name: &str| -> Vec<_> { column(name).as_string::<i32>().iter().collect() };
    assert_eq!(texts("input_shapes"), [Some("[[2, 3]]"), None]);
    assert_eq!(texts("phase"), [Some("backward"), None]);
    assert_eq!(texts("kind"), [Some("op"), Some("op")]);
    let stack = column("stack").as_list::<i32>().value(0);
    let stack: Vec<_> = stack.as_string::<i32>().iter().flatten().collect();
    assert_eq!(stack, ["inner", "outer"]);
}

#[test]
fn an_empty_table_has_the_same_columns() {
    let empty = KeyAverages::default().to_record_batch().expect("a batch");
    let rows = vec![row("aten::mm")];
    let full = KeyAveragesParts { rows, ..KeyAverages::default().into() }
        .build()
        .to_record_batch()
        .expect("a batch");
    assert_eq!(empty.schema(), full.schema());
    assert_eq!((empty.num_rows(), full.num_rows()), (0, 1));
}
