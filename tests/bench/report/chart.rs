//! A bar chart as SVG, drawn with rectangles and text.

/// Colors of the bars of a group, in order.
const COLORS: [&str; 6] = [
    "#2563eb", "#9ca3af", "#6b7280", "#d1d5db", "#f59e0b", "#10b981",
];
const BAR: usize = 16;
const LEFT: usize = 190;
const WIDTH: f64 = 520.0;

/// Draws groups of bars, one below the other, with the same scale.
pub(super) fn bars(title: &str, groups: &[(String, Vec<(&str, f64)>)]) -> String {
    let values = groups.iter().flat_map(|(_, bars)| bars.iter());
    let longest = values
        .map(|(_, value)| *value)
        .fold(f64::MIN_POSITIVE, f64::max);
    let mut y = 40;
    let mut shapes = String::new();
    for (group, bars) in groups {
        shapes += &text(10, y + BAR, "bold", group);
        for (index, (name, value)) in bars.iter().enumerate() {
            let color = COLORS[index % COLORS.len()];
            let width = value / longest * WIDTH;
            shapes += &text(100, y + BAR - 4, "normal", name);
            shapes += &format!(
                "<rect x=\"{LEFT}\" y=\"{y}\" width=\"{width:.1}\" height=\"{}\" fill=\"{color}\"/>\n\
                 <text x=\"{:.1}\" y=\"{}\">{value:.2}</text>\n",
                BAR - 3,
                190.0 + width + 5.0,
                y + BAR - 4,
            );
            y += BAR;
        }
        y += BAR;
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"780\" height=\"{y}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{}{shapes}</svg>\n",
        text(10, 22, "bold", title),
    )
}

fn text(x: usize, y: usize, weight: &str, text: &str) -> String {
    format!("<text x=\"{x}\" y=\"{y}\" font-weight=\"{weight}\">{text}</text>\n")
}
