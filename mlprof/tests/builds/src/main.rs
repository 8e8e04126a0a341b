fn main() {
    println!("{}", (0..10).map(app::in_the_library).sum::<u64>());
}
