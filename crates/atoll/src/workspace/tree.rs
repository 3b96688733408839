//! `atoll workspace tree`: shows all workspaces below the current one.

use atoll_meta::object;
use serde_json::{Value, json};

use super::session::Session;
use crate::advice::Failure;
use crate::output::{self, OutputFormat, OutputOptions};
use crate::style::Paint;

/// A workspace and its children.
struct Node {
    name: String,
    path: String,
    phase: String,
    id: String,
    children: Vec<Node>,
}

pub async fn show(session: &Session, shown: OutputOptions) -> Result<(), Failure> {
    let root = Node {
        name: session.current.clone(),
        path: session.current.clone(),
        phase: "Ready".to_string(),
        id: String::new(),
        children: children(session, &session.current).await?,
    };
    let paint = Paint::stdout();
    let text = match shown.output {
        None => drawing(&root, paint),
        Some(OutputFormat::Wide) => table(&root, paint),
        Some(OutputFormat::Name) => paths(&root),
        Some(OutputFormat::Json) => output::json(&document(&root)),
        Some(OutputFormat::Yaml) => output::yaml(&document(&root))?,
    };
    output::print(&text);
    Ok(())
}

/// The recursion is as deep as a path has names, which is limited by its length.
async fn children(session: &Session, path: &str) -> Result<Vec<Node>, Failure> {
    let list = match session.children(path).await {
        Ok(list) => list,
        Err(problem) => return Err(session.not_found(path, problem).await),
    };
    let mut nodes = Vec::new();
    for workspace in list["items"].as_array().into_iter().flatten() {
        let status = |field: &str| workspace["status"][field].as_str().unwrap_or_default().to_string();
        let name = object::name(workspace).to_string();
        let path = format!("{path}:{name}");
        let children = Box::pin(children(session, &path)).await?;
        nodes.push(Node { name, path, phase: status("phase"), id: status("id"), children });
    }
    Ok(nodes)
}

/// Calls `line` for each node with the branches to draw before its name.
fn walk(node: &Node, indent: &str, line: &mut impl FnMut(&str, &Node)) {
    for (position, child) in node.children.iter().enumerate() {
        let last = position + 1 == node.children.len();
        line(&format!("{indent}{}", if last { "└── " } else { "├── " }), child);
        walk(child, &format!("{indent}{}", if last { "    " } else { "│   " }), line);
    }
}

fn drawing(root: &Node, paint: Paint) -> String {
    let mut text = format!("{}\n", paint.heading(&root.name));
    walk(root, "", &mut |branch, node| {
        let remark = match node.phase.as_str() {
            "Ready" => String::new(),
            phase => format!(" ({})", phase.to_lowercase()),
        };
        text.push_str(&format!("{}{}{}\n", paint.faint(branch), node.name, paint.warning(&remark)));
    });
    text
}

fn table(root: &Node, paint: Paint) -> String {
    let headers = ["NAME", "PHASE", "PATH", "ID"].map(String::from);
    let row = |branch: &str, node: &Node| {
        vec![format!("{branch}{}", node.name), node.phase.clone(), node.path.clone(), node.id.clone()]
    };
    let mut rows = vec![row("", root)];
    walk(root, "", &mut |branch, node| rows.push(row(branch, node)));
    output::table(&headers, &rows, paint)
}

fn paths(root: &Node) -> String {
    let mut text = format!("{}\n", root.path);
    walk(root, "", &mut |_, node| text.push_str(&format!("{}\n", node.path)));
    text
}

fn document(node: &Node) -> Value {
    let mut document = json!({
        "name": node.name.rsplit(':').next(),
        "path": node.path,
        "phase": node.phase,
        "children": node.children.iter().map(document).collect::<Vec<_>>(),
    });
    if !node.id.is_empty() {
        document["id"] = node.id.clone().into();
    }
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(path: &str, phase: &str, children: Vec<Node>) -> Node {
        let name = path.rsplit(':').next().unwrap_or_default().to_string();
        Node { id: format!("id-{name}"), name, path: path.into(), phase: phase.into(), children }
    }

    fn sample() -> Node {
        let east = node("root:data:east", "Ready", vec![node("root:data:east:rack", "Deleting", vec![])]);
        let data = node("root:data", "Ready", vec![east, node("root:data:west", "Ready", vec![])]);
        node("root", "Ready", vec![data, node("root:web", "Ready", vec![])])
    }

    #[test]
    fn trees_are_drawn() {
        let expected = "root\n├── data\n│   ├── east\n│   │   └── rack (deleting)\n│   └── west\n└── web\n";
        assert_eq!(drawing(&sample(), Paint::PLAIN), expected);
    }

    #[test]
    fn name_and_json_formats_have_paths() {
        let expected = "root\nroot:data\nroot:data:east\nroot:data:east:rack\nroot:data:west\nroot:web\n";
        assert_eq!(paths(&sample()), expected);
        let document = document(&sample());
        let rack = &document["children"][0]["children"][0]["children"][0];
        assert_eq!(
            *rack,
            json!({ "name": "rack", "path": "root:data:east:rack", "phase": "Deleting", "id": "id-rack", "children": [] })
        );
    }

    #[test]
    fn wide_trees_are_tables() {
        let text = table(&sample(), Paint::PLAIN);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "NAME               PHASE      PATH                  ID");
        assert_eq!(lines[4], "│   │   └── rack   Deleting   root:data:east:rack   id-rack");
    }
}
