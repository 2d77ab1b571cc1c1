//! The picture of the README: the clusters of the demo and the answer that lists their endpoints. It is drawn from the
//! output of the program. `tests/tools/picture` writes it; a test fails if it differs from what the program answers
//! now.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use support::repository::repository;
use support::server::Server;
use support::wire::Transport;

const PICTURE: &str = ".github/picture.svg";
const COMMAND: &str = "tests/tools/picture";
/// If set, the picture is written instead of compared.
const WRITE: &str = "GLOBAL_DNS_WRITE_PICTURE";
const NAME: &str = "db.prod.global";

/// Readable on white and on black.
const COLORS: [&str; 3] = ["#1f77b4", "#d2691e", "#2e9e4f"];
const STYLE: &str = "text{font:14px ui-monospace,Menlo,Consolas,monospace;fill:#24292f}\
                     .title{font-weight:bold}.small{font-size:12px}.title.center,.small.center{text-anchor:middle}.box{fill:none;stroke:#8c959f}\
                     .arrow{fill:none;stroke:#8c959f;stroke-width:2;marker-end:url(#end)}.screen{fill:#8c959f;opacity:.15}\
                     @media(prefers-color-scheme:dark){text{fill:#e6edf3}}";
/// Pixels: height of a line of text, and of the space between two boxes.
const LINE: usize = 20;
const GAP: usize = 16;
const WIDTH: usize = 860;

/// A cluster, and the host name and address of each of its endpoints in the answer.
type Clusters = BTreeMap<String, Vec<(String, String)>>;

#[test]
fn picture_in_readme_shows_what_the_program_answers() {
    let demo = fs::read_to_string(repository("src/demo.yaml")).unwrap();
    let server = Server::with_text(&demo, &["--cluster-name=hub"]);
    let reply = server.ask(&format!("{NAME} A"), Transport::Udp);
    let clusters = clusters(&server);
    let listed: Vec<&String> = clusters
        .values()
        .flatten()
        .map(|(_, address)| address)
        .collect();
    let mut answer = reply.data();
    answer.sort_by_key(|address| listed.iter().position(|one| one == address));
    let picture = draw(&clusters, &answer);
    if std::env::var_os(WRITE).is_some() {
        fs::write(repository(PICTURE), &picture).unwrap();
    }
    let drawn = fs::read_to_string(repository(PICTURE)).unwrap_or_default();
    assert!(
        drawn == picture,
        "{PICTURE} differs from the program's output; {COMMAND} writes it"
    );
}

/// Reads the endpoints of the name from the API.
fn clusters(server: &Server) -> Clusters {
    let table = server.api("/api/v1/table");
    let mut clusters = Clusters::new();
    let services = table["services"].as_array().unwrap();
    let service = services
        .iter()
        .find(|service| service["namespace"] == "prod" && service["service"] == "db");
    for endpoint in service.unwrap()["endpoints"].as_array().unwrap() {
        let text = |field: &str| endpoint[field].as_str().unwrap().to_owned();
        if endpoint["returned"] == true {
            let address = endpoint["addresses"][0].as_str().unwrap().to_owned();
            let of_cluster = clusters.entry(text("cluster")).or_default();
            of_cluster.push((text("hostname"), address));
        }
    }
    clusters
}

/// Draws the clusters on the left, the server in the middle and the answer on the right.
fn draw(clusters: &Clusters, addresses: &[&str]) -> String {
    let heights = clusters
        .values()
        .map(|endpoints| box_height(endpoints.len()));
    let height = heights.sum::<usize>() + GAP * (clusters.len() + 1);
    let middle = height / 2;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\">\n\
         <style>{STYLE}</style>\n\
         <defs><marker id=\"end\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"6\" markerHeight=\"6\" orient=\"auto\">\
         <path d=\"M0 0L8 4L0 8z\" fill=\"#8c959f\"/></marker></defs>\n"
    );
    let mut top = GAP;
    for ((cluster, endpoints), color) in clusters.iter().zip(COLORS) {
        let bottom = top + box_height(endpoints.len());
        draw_box(&mut svg, (10, top), (230, bottom - top));
        draw_text(
            &mut svg,
            (24, top + LINE + 2),
            "title",
            &format!("cluster {cluster}"),
        );
        for (index, (host, address)) in endpoints.iter().enumerate() {
            let baseline = top + LINE * (index + 2) + 2;
            let line = format!("{host}  {address}");
            draw_colored(&mut svg, (24, baseline), color, &line);
        }
        let from = (top + bottom) / 2;
        let to = middle + (from / 8) - height / 16;
        let _ = writeln!(
            svg,
            "<path class=\"arrow\" d=\"M242 {from}C290 {from} 270 {to} 316 {to}\"/>"
        );
        top = bottom + GAP;
    }
    draw_box(&mut svg, (320, middle - 34), (160, 68));
    draw_text(&mut svg, (400, middle - 2), "title center", "global-dns");
    draw_text(
        &mut svg,
        (400, middle + 18),
        "small center",
        "watches mirrors",
    );
    let _ = writeln!(svg, "<path class=\"arrow\" d=\"M482 {middle}H526\"/>");
    draw_answer(&mut svg, clusters, addresses, middle);
    svg.push_str("</svg>\n");
    svg
}

/// Draws a terminal in which `dig` prints the addresses, each in the color of its cluster.
fn draw_answer(svg: &mut String, clusters: &Clusters, addresses: &[&str], middle: usize) {
    let height = box_height(addresses.len());
    let top = middle - height / 2;
    let _ = writeln!(
        svg,
        "<rect class=\"screen\" x=\"530\" y=\"{top}\" width=\"320\" height=\"{height}\" rx=\"6\"/>"
    );
    draw_text(
        svg,
        (546, top + LINE + 2),
        "title",
        &format!("$ dig +short {NAME}"),
    );
    for (index, address) in addresses.iter().enumerate() {
        let owner = clusters
            .values()
            .position(|endpoints| endpoints.iter().any(|(_, own)| own == address));
        let color = COLORS[owner.expect("an answered address belongs to a cluster")];
        draw_colored(svg, (546, top + LINE * (index + 2) + 2), color, address);
    }
}

/// Returns the height of a box with a title and some lines.
fn box_height(lines: usize) -> usize {
    LINE * (lines + 1) + GAP
}

fn draw_box(svg: &mut String, (x, y): (usize, usize), (width, height): (usize, usize)) {
    let _ = writeln!(
        svg,
        "<rect class=\"box\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"6\"/>"
    );
}

fn draw_text(svg: &mut String, (x, y): (usize, usize), class: &str, text: &str) {
    let _ = writeln!(
        svg,
        "<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{text}</text>"
    );
}

fn draw_colored(svg: &mut String, (x, y): (usize, usize), color: &str, text: &str) {
    let _ = writeln!(
        svg,
        "<text x=\"{x}\" y=\"{y}\" style=\"fill:{color}\" xml:space=\"preserve\">{text}</text>"
    );
}
