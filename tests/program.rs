//! The program under test. Cargo builds it with the tests, so that no test runs an old one.

fn main() -> std::process::ExitCode {
    global_dns::main()
}
