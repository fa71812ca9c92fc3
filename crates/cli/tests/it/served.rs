//! The gateway as a process: what signals do to it.

use crate::sdk::house::House;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

fn models(house: &House) -> String {
    let address = house.base.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /v1/models HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_hangup_has_the_configuration_read_again_and_a_wrong_one_changes_nothing() {
    let house = House::open("[models.first]\ntarget = \"echo:echo\"\n", |_| {});
    assert!(models(&house).contains("\"first\""));
    let file = house.folder().join("placet.toml");
    let before = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, before.replace("first", "second")).unwrap();
    house.hang_up();
    while !models(&house).contains("\"second\"") {
        std::thread::yield_now();
    }
    std::fs::write(&file, "[models.third]\ntarget = 3\n").unwrap();
    house.hang_up();
    std::fs::write(&file, before.replace("first", "fourth")).unwrap();
    house.hang_up();
    while !models(&house).contains("\"fourth\"") {
        assert!(models(&house).contains("\"object\":\"list\""));
    }
    assert!(!models(&house).contains("\"third\""));
}
