"""A register map as Markdown, for people."""

from multitree.hw.register_map import RegisterMap

__all__ = ["markdown"]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def markdown(register_map: RegisterMap) -> str:
    """Return the map as Markdown: a table of registers, one of fields, one of windows.

    Parameters
    ----------
    register_map : RegisterMap
        The map.
    """
    lines = [f"# {register_map.name}", "", register_map.description, ""]
    lines += ["| address | register | access | meaning |", "|---|---|---|---|"]
    for register in register_map.registers:
        lines.append(
            f"| 0x{register.address:05X} | {register.name} | {register.access} "
            f"| {_cell(register.description)} |"
        )
        for field in register.fields:
            bits = f"{field.lsb + field.width - 1}:{field.lsb}" if field.width > 1 else field.lsb
            name = f"{register.name}.{field.name} [{bits}]"
            values = "; ".join(f"{number} {value}" for value, number, _ in field.values)
            meaning = f"{field.description} {values}" if values else field.description
            lines.append(f"| | {name} | | {_cell(meaning)} |")
    if register_map.windows:
        lines += ["", "| base | window | access | stride | entries | words | meaning |"]
        lines += ["|---|---|---|---|---|---|---|"]
    for window in register_map.windows:
        lines.append(
            f"| 0x{window.base:05X} | {window.name} | {window.access} | {window.stride} "
            f"| {window.count} | {window.words} | {_cell(window.description)} |"
        )
        for register in window.registers:
            place, name = f"+ 0x{register.address:02X}", f"{window.name}.{register.name}"
            lines.append(f"| {place} | {name} | | | | | {_cell(register.description)} |")
    return "\n".join([*lines, ""])
