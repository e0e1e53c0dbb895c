"""This folder writes pages for people: the numbers, the chart and the templates that all pages share."""
