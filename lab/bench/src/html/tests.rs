use super::*;
use crate::report::example;

fn escaped(text: &str) -> String {
    html! { (text) }.into_string()
}

#[test]
fn every_name_cell_and_figure_is_on_the_page() {
    let report = example();
    let page = page(std::slice::from_ref(&report), None);
    let mut parts = vec![report.title.clone(), report.remarks[0].clone()];
    for table in &report.tables {
        parts.push(table.caption.clone());
        parts.extend(
            table
                .header
                .iter()
                .chain(table.rows.iter().flatten())
                .cloned(),
        );
    }
    for figure in &report.headline {
        parts.extend([
            figure.key.to_owned(),
            figure.meaning.clone(),
            ratio(figure.value),
        ]);
        parts.push(figure.goal.to_string());
    }
    parts.extend(report.plots.iter().map(|plot| plot.caption.clone()));
    parts.push(machine_line(&report.machine));
    for part in parts {
        assert!(page.contains(&escaped(&part)), "{part} is missing");
    }
}

#[test]
fn a_name_is_no_markup() {
    let page = page(&[example()], None);
    assert!(!page.contains("<Vec"));
    assert!(page.contains("RwLock&lt;Vec&lt;Option&lt;Arc&gt;&gt;&gt; &amp; others"));
}

#[test]
fn outcomes_are_described_in_words() {
    let page = page(&[example()], None);
    assert!(page.contains("1 of 2 goals are reached"));
    assert!(page.contains("✓ reached") && page.contains("✗ not reached"));
}

#[test]
fn the_page_needs_nothing_else() {
    let page = page(&[example()], None);
    for from_elsewhere in ["http", "<script", "<link", "@import", "url(", " src="] {
        assert!(!page.contains(from_elsewhere), "{from_elsewhere}");
    }
}

#[test]
fn every_entry_of_the_contents_leads_somewhere() {
    let page = page(&[example()], None);
    for entry in page.split("href=\"#").skip(1) {
        let id = entry.split('"').next().unwrap();
        assert!(page.contains(&format!("id=\"{id}\"")), "{id}");
    }
}

#[test]
fn a_folder_holds_the_page_and_every_plot() {
    let path = std::env::temp_dir().join(format!("fdtable-html-{}", std::process::id()));
    let folder = Folder::make(&path.join("new")).unwrap();
    folder.write(&[example()], None).unwrap();
    let mut names: Vec<_> = fs::read_dir(path.join("new"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    fs::remove_dir_all(&path).unwrap();
    assert_eq!(names, ["index.html", "lookup-bars.svg"]);
}

#[test]
fn a_folder_that_is_a_file_is_an_error() {
    let path = std::env::temp_dir().join(format!("fdtable-no-folder-{}", std::process::id()));
    fs::write(&path, "").unwrap();
    let made = Folder::make(&path);
    fs::remove_file(&path).unwrap();
    assert!(made.unwrap_err().to_string().contains("fdtable-no-folder"));
}
