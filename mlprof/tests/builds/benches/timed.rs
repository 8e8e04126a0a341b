fn main() {
    app::in_the_library(3);
}
