// Tables inside <div class="sortable"> are sorted by the column whose heading is clicked; a second click turns the order around.
document.addEventListener("DOMContentLoaded", () => {
  // The first number of a cell, so that "0.06 ± 0.01" is 0.06; otherwise its text. Empty cells come last.
  const key = (cell) => {
    const text = cell.textContent.trim();
    const number = parseFloat(text.replace("−", "-"));
    return { text, number, empty: text === "" };
  };
  for (const table of document.querySelectorAll("div.sortable table")) {
    const headings = [...table.tHead.rows[0].cells];
    headings.forEach((heading, column) => {
      const button = document.createElement("button");
      button.append(...heading.childNodes);
      heading.append(button);
      button.addEventListener("click", () => {
        const down = heading.getAttribute("aria-sort") === "ascending";
        headings.forEach((other) => other.removeAttribute("aria-sort"));
        heading.setAttribute("aria-sort", down ? "descending" : "ascending");
        const body = table.tBodies[0];
        const rows = [...body.rows].map((row) => [key(row.cells[column]), row]);
        const numbers = rows.every(([k]) => k.empty || !Number.isNaN(k.number));
        rows.sort(([a], [b]) => {
          if (a.empty || b.empty) return a.empty - b.empty;
          const order = numbers ? a.number - b.number : a.text.localeCompare(b.text);
          return down ? -order : order;
        });
        body.append(...rows.map(([, row]) => row));
      });
    });
  }
});
