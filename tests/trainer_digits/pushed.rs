//! Tests a training that pushes its metrics to a collector.

#[test]
fn what_is_pushed_is_what_the_reports_say() {
    tests::collector::assert_pushed_is_as_reported(&crate::program(), &[]);
}
