//! Tests a training that pushes its metrics to a collector.

#[test]
fn pushed_metrics_equal_the_reports() {
    tests::collector::assert_pushed_is_as_reported(&crate::program(), &[]);
}
