"""luigi_pai: OpenPAI jobs as Luigi tasks."""
